//! Selection among locations of the same name.

use serde::Deserialize;

use super::states::STATES;

/// A location in the geocoding service.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Location {
    /// The name of the location.
    pub(super) name: String,
    /// The latitude in degrees.
    pub(super) latitude: f64,
    /// The longitude in degrees.
    pub(super) longitude: f64,
    /// The state or province.
    pub(super) admin1: Option<String>,
    /// The country.
    pub(super) country: Option<String>,
    /// The two-letter country code.
    pub(super) country_code: Option<String>,
}

impl Location {
    /// Returns the name with the state and the country.
    pub(crate) fn full_name(&self) -> String {
        let parts = [Some(&self.name), self.admin1.as_ref(), self.country.as_ref()];
        let mut parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        // Singapore, Singapore
        parts.dedup();
        parts.join(", ")
    }

    /// Returns whether the location is in the given country or state, named in full or by
    /// abbreviation.
    fn is_in(&self, name: &str) -> bool {
        let is = |part: &Option<String>| {
            part.as_deref().is_some_and(|part| part.to_lowercase() == name.to_lowercase())
        };
        let is_state = STATES.iter().any(|(short, state)| {
            short.eq_ignore_ascii_case(name)
                && self.admin1.as_deref() == Some(state)
                && self.country_code.as_deref() == Some("US")
        });
        is_state
            || is(&self.admin1)
            || is(&self.country)
            || is(&self.country_code)
            || name.eq_ignore_ascii_case("USA") && self.country_code.as_deref() == Some("US")
            || name.eq_ignore_ascii_case("UK") && self.country_code.as_deref() == Some("GB")
    }
}

/// Returns the part of a name before the first comma. The service searches names without commas.
pub(super) fn first_part(name: &str) -> &str {
    name.split(',').next().unwrap_or(name).trim()
}

/// Returns the first location that matches every part of the name after a comma. The service
/// returns the best known location first. If none matches, the result is `None` rather than another
/// location.
pub(super) fn choose(name: &str, locations: Vec<Location>) -> Option<Location> {
    let around: Vec<&str> =
        name.split(',').skip(1).map(str::trim).filter(|part| !part.is_empty()).collect();
    locations.into_iter().find(|location| around.iter().all(|part| location.is_in(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(name: &str, admin1: &str, country: (&str, &str)) -> Location {
        Location {
            name: name.to_owned(),
            latitude: 1.0,
            longitude: 2.0,
            admin1: (!admin1.is_empty()).then(|| admin1.to_owned()),
            country: Some(country.0.to_owned()),
            country_code: Some(country.1.to_owned()),
        }
    }

    fn chosen(name: &str, locations: &[Location]) -> Option<String> {
        choose(name, locations.to_vec()).map(|location| location.full_name())
    }

    #[test]
    fn the_parts_after_a_comma_select_the_location() {
        let (france, us) = (("France", "FR"), ("United States", "US"));
        let locations =
            [location("Paris", "Île-de-France", france), location("Paris", "Texas", us)];
        let french = Some("Paris, Île-de-France, France".to_owned());
        let texan = Some("Paris, Texas, United States".to_owned());
        for (name, expected) in [
            ("Paris", &french),
            ("Paris, France", &french),
            ("Paris,fr", &french),
            ("Paris, île-de-france, France", &french),
            ("Paris, TX", &texan),
            ("Paris, Texas, USA", &texan),
            ("Paris, Ontario", &None),
        ] {
            assert_eq!(&chosen(name, &locations), expected, "{name}");
        }
    }

    #[test]
    fn a_full_name_has_no_repeated_parts() {
        let singapore = location("Singapore", "", ("Singapore", "SG"));
        assert_eq!(singapore.full_name(), "Singapore");
    }
}
