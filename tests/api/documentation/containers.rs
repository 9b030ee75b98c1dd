//! The container files: docker-compose.yml, .env.example, Dockerfile and .dockerignore.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{binary, outcome};

const COMPOSE: &str = include_str!("../../../docker-compose.yml");
const ENV_EXAMPLE: &str = include_str!("../../../.env.example");
const DOCKERFILE: &str = include_str!("../../../Dockerfile");
const IGNORED: &str = include_str!("../../../.dockerignore");

/// Variables of the image or of the compose file itself.
const FIXED: [&str; 3] = ["TWOSTEP_BIND", "TWOSTEP_DATA_DIR", "PG_BIN_DIR"];

/// The names that the compose file passes to the service.
fn passed() -> BTreeSet<&'static str> {
    let names =
        COMPOSE.lines().filter_map(|line| line.trim().split_once(':')).map(|(name, _)| name);
    let is_variable =
        |name: &str| name.len() > 5 && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    names.filter(|name| is_variable(name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compose_file_passes_every_option_and_secret() {
    let (status, stdout, stderr) = outcome(binary(&["config", "print", "--json"])).await;
    assert_eq!(status, Some(0), "{stderr}");
    let options: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let passed = passed();
    for option in &options {
        let variable = option["variable"].as_str().unwrap();
        assert!(FIXED.contains(&variable) || passed.contains(variable), "{variable} is not passed");
        // The URL of the database is in the file.
        let is_secret = option["option"].is_null() || variable == "TWOSTEP_RECORDS_URL";
        if is_secret {
            let file = format!("{variable}_FILE");
            assert!(passed.contains(&*file), "{file} is not passed");
        }
    }
    let variables: BTreeSet<&str> =
        options.iter().filter_map(|option| option["variable"].as_str()).collect();
    let of_compose = ["TWOSTEP_KEY", "TWOSTEP_IMAGE_TARGET", "TWOSTEP_PORT", "TWOSTEP_PUBLISH"];
    for name in passed.iter().filter(|name| name.starts_with("TWOSTEP_")) {
        let option = name.strip_suffix("_FILE").unwrap_or(name);
        assert!(variables.contains(option) || of_compose.contains(&option), "{name} is unknown");
    }
}

#[test]
fn the_compose_file_needs_keys_and_reads_every_variable_of_the_example() {
    assert!(COMPOSE.contains("\n  TWOSTEP_AUTH:\n"), "the default of --auth is keys");
    assert!(COMPOSE.contains("TWOSTEP_BOOTSTRAP_KEY: ${TWOSTEP_BOOTSTRAP_KEY-print}"));
    // No password is part of a URL, where its characters would have to be encoded.
    assert!(COMPOSE.contains("DATABASE_URL: postgres://twostep@postgres:5432/twostep\n"));
    let settings = ENV_EXAMPLE.lines().filter_map(|line| line.strip_prefix('#')?.split_once('='));
    for (name, _) in settings.filter(|(name, _)| !name.contains(' ')) {
        assert!(COMPOSE.contains(&format!("${{{name}")) || passed().contains(name), "{name}");
    }
}

#[test]
fn the_image_listens_on_all_addresses_as_an_existing_user_and_group() {
    assert!(DOCKERFILE.contains("TWOSTEP_BIND=0.0.0.0:8080"));
    assert!(DOCKERFILE.contains("groupadd --system --gid 10001 twostep"));
    assert!(DOCKERFILE.contains("useradd --system --uid 10001 --gid 10001 "));
    assert!(DOCKERFILE.trim_end().ends_with("USER 10001:10001"), "the default target");
    // The syntax line would need a registry for the front end of the build.
    assert!(!DOCKERFILE.contains("# syntax"));
    // A change of a file that the program does not contain compiles nothing again.
    for line in IGNORED.lines().filter_map(|line| line.strip_prefix('!')) {
        let needed =
            ["Cargo.toml", "Cargo.lock", "src", "crates", "migrations", ".sqlx", "web/dist"];
        assert!(needed.contains(&line), "{line} is in the context");
    }
}
