# `make help` lists the targets. Everything works from a fresh clone, as root and as a plain user:
# scripts/ensure-postgres finds or fetches a Postgres server first.

.POSIX:
.SUFFIXES:
.PHONY: help run test check fmt-check clippy doc sqlx-check openapi-check deny bench search load \
	attack crash contract sqlx-prepare openapi tools

# Arguments for the program behind a target: make run ARGS="--bind 127.0.0.1:9000"
ARGS =

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 16

run: ## serve on this machine (real model with ANTHROPIC_API_KEY, stand-in without)
	@scripts/run serve $(ARGS)

test: ## run all tests against one throwaway Postgres
	@scripts/test $(ARGS)

check: fmt-check clippy doc sqlx-check openapi-check deny ## everything else a change must pass

fmt-check: ## formatting
	cargo fmt --check

clippy: ## lints, warnings are errors
	SQLX_OFFLINE=true cargo clippy --all-targets -- -D warnings
	SQLX_OFFLINE=true cargo clippy --all-targets --features faults -- -D warnings
	SQLX_OFFLINE=true cargo clippy --lib --bins --no-default-features -- -D warnings

doc: ## documentation, warnings are errors
	SQLX_OFFLINE=true RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --document-private-items

sqlx-check: ## is .sqlx what the queries and migrations say?
	scripts/check-sqlx

openapi-check: ## is openapi/openapi.json what the handlers say, and does it only add?
	SQLX_OFFLINE=true cargo run --quiet -- openapi --check openapi/openapi.json
	scripts/contract additive

deny: ## dependencies: duplicates, licences, sources
	cargo deny --locked check --hide-inclusion-graph bans licenses sources

crash: ## kill the service again and again, and look at what is left
	@scripts/run crash $(ARGS)

contract: ## hold the service to its OpenAPI document: a TypeScript client, schemathesis
	scripts/contract $(ARGS)

bench: ## measure the pure parts, what calls of tools cost, and searches of the catalogue
	SQLX_OFFLINE=true cargo bench --bench pure --bench tools --bench catalog $(ARGS)

search: ## compare Glob and Grep with rg on 50,000 files: what they find, and how fast
	SQLX_OFFLINE=true cargo test --release --lib -- --ignored --nocapture on_50_000_files

load: ## load-test a service on this machine
	@scripts/run load $(ARGS)

attack: ## attack a service on this machine, and print what a polite client waits meanwhile
	@scripts/test --release --test api -- --ignored --nocapture rude_clients::attack

sqlx-prepare: ## write .sqlx after changing a query or a migration
	scripts/check-sqlx prepare

openapi: ## write openapi/openapi.json after changing a handler
	SQLX_OFFLINE=true cargo run --quiet -- openapi >openapi/openapi.json.new
	mv openapi/openapi.json.new openapi/openapi.json

tools: ## install what `make check` needs
	scripts/tools
