//! The configuration of proxies that lets streams through.

use reqwest::header::{HeaderMap, SERVER, VIA};

/// A fault of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Responses are buffered.
    Buffering,
    /// Streams are compressed.
    Compression,
    /// Idle streams are closed.
    Idle,
    /// A disconnect of the client does not reach the service.
    Disconnect,
    /// `Last-Event-ID` is removed.
    LastEventId,
    /// `Location` lacks the path prefix.
    Location,
}

/// A reverse proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proxy {
    Nginx,
    Caddy,
    Ha,
    Traefik,
}

impl Proxy {
    pub(super) const ALL: [Self; 4] = [Self::Nginx, Self::Caddy, Self::Ha, Self::Traefik];

    /// Detects the proxy from the headers of a response. `HAProxy` and Traefik send no name.
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

    /// Returns the configuration change for a fault, if one exists.
    pub(super) const fn hint(self, fault: Fault) -> Option<&'static str> {
        match self {
            Self::Nginx => Some(nginx(fault)),
            Self::Caddy => Some(caddy(fault)),
            Self::Ha => Some(haproxy(fault)),
            Self::Traefik => traefik(fault),
        }
    }
}

const fn nginx(fault: Fault) -> &'static str {
    match fault {
        Fault::Buffering => "proxy_buffering off;",
        Fault::Compression => "gzip off;",
        Fault::Idle => "proxy_read_timeout 75s;",
        Fault::Disconnect => "proxy_ignore_client_abort off;",
        Fault::LastEventId => "proxy_set_header Last-Event-ID $http_last_event_id;",
        Fault::Location => "proxy_redirect / /agent/;  # the path that clients use",
    }
}

const fn caddy(fault: Fault) -> &'static str {
    match fault {
        Fault::Buffering => "remove response_buffers from reverse_proxy",
        Fault::Compression => "@whole not path */stream */messages, then: encode @whole gzip",
        Fault::Idle => "remove read_timeout from transport http, or set it to 75s",
        Fault::Disconnect => "remove flush_interval -1 from reverse_proxy",
        Fault::LastEventId => "remove header_up -Last-Event-ID from reverse_proxy",
        Fault::Location => "header_down Location ^/ /agent/  # the path that clients use",
    }
}

const fn haproxy(fault: Fault) -> &'static str {
    match fault {
        Fault::Buffering => "option http-no-delay",
        Fault::Compression => "remove text/event-stream from compression type",
        Fault::Idle => "timeout server 75s and timeout client 75s",
        Fault::Disconnect => "option abortonclose",
        Fault::LastEventId => "remove http-request del-header Last-Event-ID",
        Fault::Location => {
            r"http-response replace-header Location ^/(.*) /agent/\1  # the path that clients use"
        }
    }
}

const fn traefik(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Buffering => Some("remove the buffering middleware"),
        Fault::Compression => Some("compress: excludedContentTypes: [text/event-stream]"),
        Fault::Idle => Some("entryPoints: respondingTimeouts: writeTimeout: 0"),
        Fault::LastEventId => Some("remove Last-Event-ID from headers: customRequestHeaders"),
        // Traefik forwards these and has no option that changes it.
        Fault::Disconnect | Fault::Location => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_detected_by_its_response_headers() {
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
