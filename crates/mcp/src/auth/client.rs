//! HTTP client of logins: a server names the URLs, so every one of them is checked before it is opened.
//!
//! Only `https`, or `http` on this machine, is opened. A name may resolve to any public address. An address of this
//! machine or of a private network is opened only if the server's own URL contains one of that kind, because otherwise
//! a server on the internet could send requests into the user's network. Behind a proxy, the proxy resolves the names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use reqwest::header::LOCATION;
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Request, Response, StatusCode};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRedirectPolicy, OAuthHttpRequest,
};
use url::{Host, Url};

use super::endpoints;

const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 5;
const MAX_BODY: usize = 1 << 20;

/// Networks of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Public,
    /// This machine.
    Loopback,
    /// A network that is not reachable from the internet.
    Private,
    /// Addresses that no server has, and those of the metadata services of clouds.
    Reserved,
}

#[derive(Debug, thiserror::Error)]
enum Rejected {
    #[error(
        "the address of `{0}` is not allowed: a login opens an address of this machine or of a private network \
             only if the server's own URL contains such an address"
    )]
    Address(Url),
    #[error("more than {MAX_REDIRECTS} redirects")]
    Redirects,
    #[error("the response is larger than 1 MiB")]
    Body,
}

/// The HTTP client for the logins of one server.
pub(super) struct LoginClient {
    /// The address in the server's URL, if it contains one instead of a name.
    own: Option<IpAddr>,
    /// Network that the server's URL contains an address of.
    network: Network,
}

impl LoginClient {
    /// Creates the client of the server with this URL.
    pub(super) fn new(server: &Url) -> Self {
        let own = literal(server);
        let network = match own {
            Some(address) => network(address),
            None if endpoints::is_on_this_machine(server) => Network::Loopback,
            None => Network::Public,
        };
        Self { own, network }
    }

    async fn send(&self, request: OAuthHttpRequest) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
        let mut next = Request::try_from(request.request)?;
        for _ in 0..=MAX_REDIRECTS {
            let current = next.try_clone();
            let response = self.open(next).await?;
            let redirect = target(&response, current.as_ref().map(Request::method))
                .filter(|_| request.redirect_policy == OAuthHttpRedirectPolicy::Follow);
            let (Some(url), Some(mut following)) = (redirect, current) else { return read(response).await };
            *following.url_mut() = url;
            next = following;
        }
        Err(Rejected::Redirects.into())
    }

    /// Sends one request to an address that was checked: the name is not resolved again.
    async fn open(&self, request: Request) -> Result<Response, OAuthHttpClientError> {
        let url = request.url().clone();
        endpoints::check("URL", url.as_str())?;
        let mut client = Client::builder().timeout(TIMEOUT).redirect(Policy::none());
        let mut is_rejected = false;
        match (literal(&url), url.host_str()) {
            (Some(address), _) if !self.allows(address) => return Err(Rejected::Address(url).into()),
            (None, Some(name)) => {
                let mut addresses = resolve(&url).await;
                let found = addresses.len();
                addresses.retain(|address| self.allows(address.ip()));
                is_rejected = found > 0 && addresses.is_empty();
                // Without addresses, only a proxy can connect.
                client = client.resolve_to_addrs(name, &addresses);
            }
            _ => {}
        }
        match client.build()?.execute(request).await {
            Err(error) if is_rejected && error.is_connect() => Err(Rejected::Address(url).into()),
            response => Ok(response?),
        }
    }

    fn allows(&self, address: IpAddr) -> bool {
        match network(address) {
            Network::Public => true,
            Network::Reserved => self.own == Some(address),
            network => network == self.network,
        }
    }
}

impl OAuthHttpClient for LoginClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.send(request))
    }
}

async fn resolve(url: &Url) -> Vec<SocketAddr> {
    let (Some(name), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return Vec::new() };
    tokio::net::lookup_host((name, port)).await.map(Iterator::collect).unwrap_or_default()
}

/// Returns the URL to send the same request to. Redirects that change the method are not followed.
fn target(response: &Response, method: Option<&Method>) -> Option<Url> {
    let is_followed = match response.status() {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => {
            method == Some(&Method::GET)
        }
        _ => false,
    };
    is_followed.then_some(())?;
    response.url().join(response.headers().get(LOCATION)?.to_str().ok()?).ok()
}

async fn read(mut response: Response) -> Result<http::Response<Vec<u8>>, OAuthHttpClientError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > MAX_BODY {
            return Err(Rejected::Body.into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(http::Response::from(response).map(|_| body))
}

fn literal(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}

fn network(address: IpAddr) -> Network {
    match address {
        IpAddr::V4(address) => network_v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| network_v6(address), network_v4),
    }
}

fn network_v4(address: Ipv4Addr) -> Network {
    match address.octets() {
        [127, ..] => Network::Loopback,
        [100, 64..=127, ..] => Network::Private,
        _ if address.is_private() => Network::Private,
        [0 | 224..=255, ..] | [169, 254, ..] | [198, 18 | 19, ..] => Network::Reserved,
        _ => Network::Public,
    }
}

fn network_v6(address: Ipv6Addr) -> Network {
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => Network::Loopback,
        [0xfc00..=0xfdff, ..] => Network::Private,
        // Unspecified, link-local, site-local, multicast, Teredo, and local translation.
        [0, 0, 0, 0, 0, 0, 0, 0] | [0xfe80..=0xffff, ..] | [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..] => {
            Network::Reserved
        }
        _ => Network::Public,
    }
}

/// Returns the IPv4 address that an IPv6 address stands for: mapped, compatible, or translated (NAT64 and 6to4).
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| Some(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => join(high, low),
        [0x2002, high, low, ..] => join(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::{LoginClient, Network, network};

    #[test]
    fn networks_of_addresses() {
        let all = [
            (Network::Public, "1.1.1.1 172.32.0.1 100.128.0.1 2606:4700::1111 64:ff9b::101:101"),
            (Network::Loopback, "127.0.0.1 127.9.9.9 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 2002:7f00:1::"),
            (Network::Private, "10.0.0.1 172.16.0.1 192.168.1.1 100.64.0.1 fd00::1 ::ffff:10.0.0.1 ::a00:1"),
            (
                Network::Reserved,
                "0.0.0.0 169.254.169.254 224.0.0.1 255.255.255.255 198.18.0.1 :: fe80::1 ff02::1 2001::1 64:ff9b:1::1 \
                 ::ffff:169.254.169.254",
            ),
        ];
        for (expected, addresses) in all {
            for address in addresses.split(' ') {
                assert_eq!(network(address.parse().unwrap()), expected, "{address}");
            }
        }
    }

    #[test]
    fn private_addresses_need_a_private_server() {
        let allows = |server: &str, address: &str| {
            LoginClient::new(&server.parse().unwrap()).allows(address.parse::<IpAddr>().unwrap())
        };
        let allowed = [
            ("https://mcp.example/mcp", "1.1.1.1"),
            ("http://localhost:80/mcp", "127.0.0.1"),
            ("http://127.0.0.1:80/mcp", "::1"),
            ("https://10.0.0.1/mcp", "192.168.1.1"),
            ("https://169.254.1.1/mcp", "169.254.1.1"),
        ];
        for (server, address) in allowed {
            assert!(allows(server, address), "{server} {address}");
        }
        let rejected = [
            ("https://mcp.example/mcp", "127.0.0.1"),
            ("https://mcp.example/mcp", "10.0.0.1"),
            ("https://1.1.1.1/mcp", "::1"),
            ("http://localhost:80/mcp", "10.0.0.1"),
            ("https://10.0.0.1/mcp", "127.0.0.1"),
            ("https://10.0.0.1/mcp", "169.254.169.254"),
            ("https://169.254.1.1/mcp", "169.254.169.254"),
        ];
        for (server, address) in rejected {
            assert!(!allows(server, address), "{server} {address}");
        }
    }

    #[tokio::test]
    async fn name_of_this_machine_is_not_opened_for_others() {
        crate::remote::choose_tls();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://localhost:{}/metadata", listener.local_addr().unwrap().port());
        let open = async |server: &str| {
            let client = LoginClient::new(&server.parse().unwrap());
            let request = reqwest::Request::new(reqwest::Method::GET, url.parse().unwrap());
            client.open(request).await.unwrap_err().to_string()
        };
        let reason = open("https://mcp.example/mcp").await;
        assert!(reason.starts_with(&format!("the address of `{url}` is not allowed")), "{reason}");
        assert!(listener.accept().is_err(), "connected");
    }
}
