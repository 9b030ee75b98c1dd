# syntax=docker/dockerfile:1

# The service without a database: DATABASE_URL names one (see docker-compose.yml).

FROM rust:1.95-bookworm AS build
WORKDIR /src
ENV SQLX_OFFLINE=true CARGO_TERM_COLOR=never

# Dependencies alone, with a stand-in for the sources: this layer is built again only when they
# change. rust-toolchain.toml is not in the context: it would fetch rustfmt and clippy as well.
COPY Cargo.toml Cargo.lock ./
RUN mkdir -p src benches tests \
    && echo 'fn main() {}' > src/main.rs \
    && touch src/lib.rs \
    && sed -n -e '/^\[\[bench\]\]/,/^$/s|^name = "\(.*\)"|benches/\1.rs|p' \
        -e '/^\[\[test\]\]/,/^$/s|^name = "\(.*\)"|tests/\1.rs|p' Cargo.toml \
        | while read -r target; do echo 'fn main() {}' > "$target"; done \
    && cargo build --locked --release --bin twostep \
    && rm -rf src

# Benches and tests are not in the context either: cargo asks for their files and is content with
# the stand-ins.
COPY . .
# newer than the stand-in, whatever times the context has
RUN find src -name '*.rs' -exec touch {} + \
    && cargo build --locked --release --bin twostep

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --home-dir /nonexistent --no-create-home \
        --shell /usr/sbin/nologin twostep \
    && install -d -o twostep -g twostep -m 0750 /workspace /var/lib/twostep
ENV TWOSTEP_DATA_DIR=/var/lib/twostep
COPY --from=build /src/target/release/twostep /usr/local/bin/twostep
USER 10001:10001
WORKDIR /workspace
EXPOSE 8080
# serve drains for up to 30 s on SIGTERM
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["twostep", "healthcheck"]
ENTRYPOINT ["twostep"]
CMD ["serve"]
