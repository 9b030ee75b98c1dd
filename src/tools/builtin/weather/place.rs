//! Which of the places of one name is meant.

use serde::Deserialize;

use super::states::STATES;

/// A place, as the service knows it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Place {
    /// Its name.
    pub(super) name: String,
    /// Degrees north.
    pub(super) latitude: f64,
    /// Degrees east.
    pub(super) longitude: f64,
    /// The state or province.
    pub(super) admin1: Option<String>,
    /// The country.
    pub(super) country: Option<String>,
    /// The country as two letters.
    pub(super) country_code: Option<String>,
}

impl Place {
    /// Its name, and where it is.
    pub(crate) fn full_name(&self) -> String {
        let parts = [Some(&self.name), self.admin1.as_ref(), self.country.as_ref()];
        let mut parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        // Singapore, Singapore
        parts.dedup();
        parts.join(", ")
    }

    /// Whether it lies in what is named here: a country or a state, whole or in short.
    fn lies_in(&self, name: &str) -> bool {
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

/// What the service looks for: it knows names, and nothing of commas.
pub(super) fn first_part(name: &str) -> &str {
    name.split(',').next().unwrap_or(name).trim()
}

/// The first place that lies in all that the name says after its commas. The service puts the
/// best known first. Not to know a place is better than to tell of another.
pub(super) fn choose(name: &str, places: Vec<Place>) -> Option<Place> {
    let around: Vec<&str> =
        name.split(',').skip(1).map(str::trim).filter(|part| !part.is_empty()).collect();
    places.into_iter().find(|place| around.iter().all(|part| place.lies_in(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str, admin1: &str, country: (&str, &str)) -> Place {
        Place {
            name: name.to_owned(),
            latitude: 1.0,
            longitude: 2.0,
            admin1: (!admin1.is_empty()).then(|| admin1.to_owned()),
            country: Some(country.0.to_owned()),
            country_code: Some(country.1.to_owned()),
        }
    }

    fn chosen(name: &str, places: &[Place]) -> Option<String> {
        choose(name, places.to_vec()).map(|place| place.full_name())
    }

    #[test]
    fn what_follows_a_comma_says_which_place_is_meant() {
        let (france, us) = (("France", "FR"), ("United States", "US"));
        let places = [place("Paris", "Île-de-France", france), place("Paris", "Texas", us)];
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
            assert_eq!(&chosen(name, &places), expected, "{name}");
        }
    }

    #[test]
    fn a_name_is_not_said_twice() {
        let singapore = place("Singapore", "", ("Singapore", "SG"));
        assert_eq!(singapore.full_name(), "Singapore");
    }
}
