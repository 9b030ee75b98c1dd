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
    /// The service does not know the path prefix.
    Prefix,
    /// Small packets are delayed.
    Delay,
    /// Large bodies are refused.
    Body,
    /// Methods are refused.
    Methods,
    /// `Prefer` is removed.
    Prefer,
    /// Late replies are replaced by an error.
    Reply,
    /// The proxy adds CORS headers to those of the service.
    Cors,
    /// The proxy answers preflight requests.
    Preflight,
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

    /// Returns the configuration change for a fault, if one exists. `prefix` is the path under which
    /// clients reach the service.
    pub(super) fn hint(self, fault: Fault, prefix: &str) -> Option<String> {
        let hint = match self {
            Self::Nginx => nginx(fault),
            Self::Caddy => caddy(fault)?,
            Self::Ha => haproxy(fault),
            Self::Traefik => traefik(fault)?,
        };
        Some(hint.replace("PREFIX", prefix))
    }
}

const fn nginx(fault: Fault) -> &'static str {
    match fault {
        Fault::Buffering => "proxy_buffering off;",
        Fault::Compression => "gzip off;",
        Fault::Idle => "proxy_read_timeout 75s;",
        Fault::Disconnect => "proxy_ignore_client_abort off;",
        Fault::LastEventId => "proxy_set_header Last-Event-ID $http_last_event_id;",
        Fault::Prefix => "proxy_set_header X-Forwarded-Prefix PREFIX;",
        Fault::Delay => "tcp_nodelay on;",
        Fault::Body => "client_max_body_size 33m;",
        Fault::Methods => "remove limit_except",
        Fault::Prefer => "proxy_set_header Prefer $http_prefer;",
        Fault::Reply => "proxy_read_timeout 150s;",
        Fault::Cors => "proxy_hide_header Access-Control-Allow-Origin;, or remove add_header",
        Fault::Preflight => "remove the return for $request_method = OPTIONS",
    }
}

const fn caddy(fault: Fault) -> Option<&'static str> {
    Some(match fault {
        Fault::Buffering => "remove buffer_responses or response_buffers from reverse_proxy",
        Fault::Compression => "@whole not path */stream */messages, then: encode @whole gzip",
        Fault::Idle => "remove read_timeout from transport http, or set it to 75s",
        Fault::Disconnect => "remove flush_interval -1 from reverse_proxy",
        Fault::LastEventId => "remove header_up -Last-Event-ID from reverse_proxy",
        Fault::Prefix => "header_up X-Forwarded-Prefix PREFIX in reverse_proxy",
        Fault::Body => "request_body { max_size 33MB }",
        Fault::Methods => "remove the method matcher",
        Fault::Prefer => "remove header_up -Prefer from reverse_proxy",
        Fault::Reply => "remove response_header_timeout from transport http, or set it to 150s",
        Fault::Cors => "header_down -Access-Control-Allow-Origin, or remove header",
        Fault::Preflight => "remove the respond for OPTIONS",
        // Caddy does not delay packets.
        Fault::Delay => return None,
    })
}

const fn haproxy(fault: Fault) -> &'static str {
    match fault {
        Fault::Buffering | Fault::Delay => "option http-no-delay",
        Fault::Compression => "remove text/event-stream from compression type",
        Fault::Idle => "timeout server 75s and timeout client 75s",
        Fault::Disconnect => "option abortonclose",
        Fault::LastEventId => "remove http-request del-header Last-Event-ID",
        Fault::Prefix => "http-request set-header X-Forwarded-Prefix PREFIX",
        Fault::Body => "remove http-request deny for large bodies",
        Fault::Methods => "remove http-request deny for methods",
        Fault::Prefer => "remove http-request del-header Prefer",
        Fault::Reply => "timeout server 150s and timeout client 150s",
        Fault::Cors => "http-response set-header instead of add-header",
        Fault::Preflight => "remove http-request return for OPTIONS",
    }
}

const fn traefik(fault: Fault) -> Option<&'static str> {
    match fault {
        Fault::Buffering => Some("remove the buffering middleware"),
        Fault::Compression => Some("compress: excludedContentTypes: [text/event-stream]"),
        Fault::Idle => Some("entryPoints: respondingTimeouts: writeTimeout: 0"),
        Fault::LastEventId => Some("remove Last-Event-ID from headers: customRequestHeaders"),
        Fault::Prefix => Some("stripPrefix: prefixes: [PREFIX], which sends X-Forwarded-Prefix"),
        Fault::Body => Some("buffering: maxRequestBodyBytes: 33000000, or remove the middleware"),
        Fault::Methods => Some("remove Method from the rule of the router"),
        Fault::Prefer => Some("remove Prefer from headers: customRequestHeaders"),
        Fault::Reply => Some("serversTransport: forwardingTimeouts: responseHeaderTimeout: 150s"),
        Fault::Cors | Fault::Preflight => Some("remove accessControlAllowOriginList from headers"),
        // Traefik has no option that changes these.
        Fault::Disconnect | Fault::Delay => None,
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
