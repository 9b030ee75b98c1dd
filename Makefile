# `make help` lists the targets. All targets work in a fresh clone, as root and as another user:
# scripts/ensure-postgres finds or downloads a Postgres server first.

.POSIX:
.SUFFIXES:
.PHONY: help run build test test-fast check fmt-check clippy doc sqlx-check openapi-check deny bench search load \
	attack crash contract sqlx-prepare openapi page tools

# Arguments for the program of a target: make run ARGS="--bind 127.0.0.1:9000"
ARGS =

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 16

run: ## build and serve on this machine (with ANTHROPIC_API_KEY the real model, else the simulator)
	@scripts/run serve $(ARGS)

build: ## build the program for production: target/release/twostep
	SQLX_OFFLINE=true cargo build --release --locked

test: ## run all tests against one throwaway Postgres server
	@scripts/test $(ARGS)

test-fast: ## run the tests that take less than a minute in total
	@scripts/test fast $(ARGS)

check: fmt-check clippy doc openapi-check deny sqlx-check ## run all other checks that a change must pass

fmt-check: ## check the formatting
	cargo fmt --all --check

clippy: ## run the lints; warnings are errors
	SQLX_OFFLINE=true cargo clippy --workspace --all-targets --features faults -- -D warnings
	SQLX_OFFLINE=true cargo clippy --workspace --lib --bins -- -D warnings
	SQLX_OFFLINE=true cargo clippy --workspace --lib --bins --no-default-features -- -D warnings

doc: ## build the documentation; warnings are errors
	SQLX_OFFLINE=true RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

sqlx-check: ## check that .sqlx matches the queries and migrations
	scripts/check-sqlx

openapi-check: ## check that openapi/openapi.json matches the handlers and is additive
	SQLX_OFFLINE=true cargo run --quiet -- openapi --check openapi/openapi.json
	scripts/contract additive

deny: ## check the dependencies: duplicates, licences, sources
	cargo deny --locked check --hide-inclusion-graph bans licenses sources

crash: ## kill the service many times and check its state each time
	@scripts/run crash $(ARGS)

contract: ## check the service against its OpenAPI document: a TypeScript client, schemathesis
	scripts/contract $(ARGS)

bench: ## measure the parts without IO, the cost of tool calls, and catalog searches
	SQLX_OFFLINE=true cargo bench --bench pure --bench tools --bench catalog $(ARGS)

search: ## compare results and speed of Glob and Grep with rg on 50,000 files
	SQLX_OFFLINE=true cargo test --release --lib -- --ignored --nocapture on_50_000_files

load: ## load-test a service on this machine; ARGS=--quick for the short form
	@scripts/run load $(ARGS)

attack: ## flood a service on this machine, and print the latency of a well-behaved client
	@scripts/test --release --test api -- --ignored --nocapture abusive_clients::attack

sqlx-prepare: ## write .sqlx after a change to a query or a migration
	scripts/check-sqlx prepare

openapi: ## write openapi/openapi.json after a change to a handler
	SQLX_OFFLINE=true cargo run --quiet -- openapi >openapi/openapi.json.new
	mv openapi/openapi.json.new openapi/openapi.json

page: ## build the page at /app/ into web/dist after a change in web or clients/typescript
	npm --prefix web ci --silent --no-audit --no-fund --ignore-scripts
	npm --prefix web run --silent build

tools: ## install the programs that `make check` needs
	scripts/tools
