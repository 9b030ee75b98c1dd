//! Versions of resources that clients expect (the precondition of a change).

use super::error::Error;

/// Refuses a change if the version of the resource is not one of the expected ones. Without expected
/// versions any version is accepted.
pub(crate) fn check_version(expected: Option<&[i64]>, version: i64) -> Result<(), Error> {
    match expected {
        Some(versions) if !versions.contains(&version) => Err(Error::VersionMismatch),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_is_none_of_the_expected_is_refused() {
        assert!(check_version(None, 7).is_ok());
        assert!(check_version(Some(&[6, 7]), 7).is_ok());
        assert!(matches!(check_version(Some(&[6]), 7), Err(Error::VersionMismatch)));
        assert!(matches!(check_version(Some(&[]), 7), Err(Error::VersionMismatch)));
    }
}
