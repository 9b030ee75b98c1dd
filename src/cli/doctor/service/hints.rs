//! The lines of a proxy's configuration that let streams through.

use reqwest::header::{HeaderMap, SERVER, VIA};

/// What stands in the way of streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Bytes are held back.
    Buffering,
    /// They are compressed on the way.
    Compression,
    /// Silence is taken for an end.
    Idle,
    /// The service does not hear that a client has left.
    Leaving,
    /// `Last-Event-ID` does not arrive.
    LastEventId,
    /// `Location` leads elsewhere.
    Location,
}

/// What may stand before a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxy {
    Nginx,
    Caddy,
    Ha,
    Traefik,
}

impl Proxy {
    pub(super) const ALL: [Self; 4] = [Self::Nginx, Self::Caddy, Self::Ha, Self::Traefik];

    /// The one that names itself in a response. `HAProxy` and Traefik do not.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let named = [SERVER, VIA].into_iter().flat_map(|name| headers.get_all(name));
        let named: String = named.filter_map(|value| value.to_str().ok()).collect();
        let named = named.to_ascii_lowercase();
        match () {
            () if named.contains("nginx") || named.contains("openresty") => Some(Self::Nginx),
            () if named.contains("caddy") => Some(Self::Caddy),
            () if named.contains("haproxy") => Some(Self::Ha),
            () if named.contains("traefik") => Some(Self::Traefik),
            () => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Caddy => "Caddy",
            Self::Ha => "HAProxy",
            Self::Traefik => "Traefik",
        }
    }

    /// What to change, if there is something.
    pub(super) const fn hint(self, trouble: Trouble) -> Option<&'static str> {
        match self {
            Self::Nginx => Some(nginx(trouble)),
            Self::Caddy => Some(caddy(trouble)),
            Self::Ha => Some(haproxy(trouble)),
            Self::Traefik => traefik(trouble),
        }
    }
}

const fn nginx(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Buffering => "proxy_buffering off;",
        Trouble::Compression => "gzip off;",
        Trouble::Idle => "proxy_read_timeout 75s;",
        Trouble::Leaving => "proxy_ignore_client_abort off;",
        Trouble::LastEventId => "proxy_set_header Last-Event-ID $http_last_event_id;",
        Trouble::Location => "proxy_redirect / /agent/;  # the path that clients use",
    }
}

const fn caddy(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Buffering => "take response_buffers out of reverse_proxy",
        Trouble::Compression => "@whole not path */stream */messages, then: encode @whole gzip",
        Trouble::Idle => "take read_timeout out of transport http, or make it 75s",
        Trouble::Leaving => "take flush_interval -1 out of reverse_proxy",
        Trouble::LastEventId => "take header_up -Last-Event-ID out of reverse_proxy",
        Trouble::Location => "header_down Location ^/ /agent/  # the path that clients use",
    }
}

const fn haproxy(trouble: Trouble) -> &'static str {
    match trouble {
        Trouble::Buffering => "option http-no-delay",
        Trouble::Compression => "take text/event-stream out of compression type",
        Trouble::Idle => "timeout server 75s, and timeout client 75s",
        Trouble::Leaving => "option abortonclose",
        Trouble::LastEventId => "take http-request del-header Last-Event-ID out",
        Trouble::Location => {
            r"http-response replace-header Location ^/(.*) /agent/\1  # the path that clients use"
        }
    }
}

const fn traefik(trouble: Trouble) -> Option<&'static str> {
    match trouble {
        Trouble::Buffering => Some("take the buffering middleware away"),
        Trouble::Compression => Some("compress: excludedContentTypes: [text/event-stream]"),
        Trouble::Idle => Some("entryPoints: respondingTimeouts: writeTimeout: 0"),
        Trouble::LastEventId => Some("take Last-Event-ID out of headers: customRequestHeaders"),
        // It passes this on, and has nothing that would change it.
        Trouble::Leaving | Trouble::Location => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_known_by_what_it_says_of_itself() {
        let of = |name: &'static str, value| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value);
            Proxy::of(&headers)
        };
        let value = reqwest::header::HeaderValue::from_static;
        assert_eq!(of("server", value("nginx/1.22.1")), Some(Proxy::Nginx));
        assert_eq!(of("via", value("1.1 Caddy")), Some(Proxy::Caddy));
        assert_eq!(of("server", value("cloudflare")), None);
    }
}
