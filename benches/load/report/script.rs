//! A script for psql that is executed without psql.

/// The statements of a script, without the commands of psql, and with values for its variables. Each
/// statement ends with a semicolon at the end of a line.
pub(crate) fn statements(script: &str, variables: &[(&str, u32)]) -> Vec<String> {
    let is_sql = |line: &&str| !line.starts_with('\\') && !line.trim_start().starts_with("--");
    let mut sql = String::new();
    for line in script.lines().filter(is_sql) {
        sql.push_str(line.trim_end());
        sql.push('\n');
    }
    for (name, value) in variables {
        sql = sql.replace(&format!(":{name}"), &value.to_string());
    }
    let statements = sql.split(";\n").map(str::trim).filter(|statement| !statement.is_empty());
    statements.map(str::to_owned).collect()
}
