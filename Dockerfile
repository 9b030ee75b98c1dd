# The service without a database: DATABASE_URL names one (see docker-compose.yml).
#
#   docker build -t twostep .                                the service
#   docker build -t twostep:coding --target coding .         with git, python3, ripgrep and curl

FROM rust:1.95-bookworm AS build
WORKDIR /src
ENV SQLX_OFFLINE=true CARGO_TERM_COLOR=never

# The dependencies and the crates of the workspace, with placeholders for the sources of the service:
# Docker rebuilds this layer only when one of them changes. rust-toolchain.toml is not in the
# context, because rustup would also install rustfmt and clippy.
COPY Cargo.toml Cargo.lock ./
COPY crates crates
RUN mkdir -p src benches tests \
    && echo 'fn main() {}' > src/main.rs \
    && touch src/lib.rs \
    && sed -n -e '/^\[\[bench\]\]/,/^$/s|^name = "\(.*\)"|benches/\1.rs|p' \
        -e '/^\[\[test\]\]/,/^$/s|^name = "\(.*\)"|tests/\1.rs|p' Cargo.toml \
        | while read -r target; do echo 'fn main() {}' > "$target"; done \
    && cargo build --locked --release --bin twostep \
    && rm -rf src

# Benches and tests are not in the context either: cargo requires their files, and the placeholders
# are enough. Nor is any file that the program does not contain, such as README.md, because a change
# of it would compile the program again.
COPY . .
# cargo compares modification times: the sources must be newer than the placeholder
RUN find src -name '*.rs' -exec touch {} + \
    && cargo build --locked --release --bin twostep

FROM debian:bookworm-slim AS base
# The group has the number that USER names.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --system --gid 10001 twostep \
    && useradd --system --uid 10001 --gid 10001 --home-dir /nonexistent --no-create-home \
        --shell /usr/sbin/nologin twostep \
    && install -d -o twostep -g twostep -m 0750 /workspace /var/lib/twostep
# A published port reaches only a service that listens on all addresses. The service then does not start
# without an API key. `worker` has its health checks at the same address.
ENV TWOSTEP_DATA_DIR=/var/lib/twostep TWOSTEP_BIND=0.0.0.0:8080
COPY --from=build /src/target/release/twostep /usr/local/bin/twostep
WORKDIR /workspace
EXPOSE 8080
# serve drains for up to 30 s on SIGTERM
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["twostep", "healthcheck"]
ENTRYPOINT ["twostep"]
CMD ["serve"]

# The programs that coding agents call in Bash.
FROM base AS coding
RUN apt-get update \
    && apt-get install -y --no-install-recommends curl git python3 ripgrep \
    && rm -rf /var/lib/apt/lists/*
USER 10001:10001

FROM base AS twostep
USER 10001:10001
