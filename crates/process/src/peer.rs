//! The user behind a local TCP connection.
//!
//! A loopback server can admit processes of its own user without a secret. The kernel lists the owner of every TCP
//! socket on this machine; the client's end of an accepted connection is found there by its two addresses. If the
//! kernel has no such list, no client is recognized, and the caller has to require a secret.

use std::net::SocketAddr;

/// Returns `true` if the client of an accepted connection is a process on this machine that runs as the same user.
///
/// `server` is the local address of the accepted socket and `client` its peer address. The answer is only known while
/// both ends are open; it is `false` whenever it is unknown. Blocks briefly to read a kernel file.
#[must_use]
pub fn is_same_user(server: SocketAddr, client: SocketAddr) -> bool {
    client.ip().to_canonical().is_loopback() && is_own_socket(server, client)
}

#[cfg(target_os = "linux")]
fn is_own_socket(server: SocketAddr, client: SocketAddr) -> bool {
    let own = rustix::process::geteuid().as_raw();
    // A client with an IPv4 address may use a socket of either family.
    ["/proc/self/net/tcp", "/proc/self/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .find_map(|table| linux::socket_owner(&table, client, server))
        .is_some_and(|owner| owner == own)
}

#[cfg(not(target_os = "linux"))]
fn is_own_socket(_: SocketAddr, _: SocketAddr) -> bool {
    false
}

#[cfg(target_os = "linux")]
mod linux {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

    /// The state of a connection whose ends are both open. A closing socket is listed without its owner.
    const ESTABLISHED: &str = "01";

    /// Returns the user id that owns the open socket between two addresses.
    pub(super) fn socket_owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
        let (local, remote) = (endpoint(local), endpoint(remote));
        table.lines().skip(1).find_map(|line| {
            let mut fields = line.split_ascii_whitespace().skip(1);
            let found = (parse(fields.next()?)?, parse(fields.next()?)?);
            let is_open = fields.next()? == ESTABLISHED;
            // The queues, the timer, and the retransmissions come before the owner.
            let owner = fields.nth(3)?.parse().ok()?;
            (is_open && found == (local, remote)).then_some(owner)
        })
    }

    fn endpoint(address: SocketAddr) -> (IpAddr, u16) {
        (address.ip().to_canonical(), address.port())
    }

    /// Parses an address as the kernel writes it: words of the host's byte order in hex, a colon, and the port.
    fn parse(text: &str) -> Option<(IpAddr, u16)> {
        let (address, port) = text.split_once(':')?;
        let word = |at: usize| {
            let digits = address.get(at * 8..at * 8 + 8)?;
            u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
        };
        let address = match address.len() {
            8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
            32 => {
                let words = [word(0)?, word(1)?, word(2)?, word(3)?];
                IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(words.as_flattened()).ok()?))
            }
            _ => return None,
        };
        Some((address.to_canonical(), u16::from_str_radix(port, 16).ok()?))
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::linux::socket_owner;
    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn connect(to: &str) -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind(to).unwrap();
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(("localhost", port))
            .or_else(|_| TcpStream::connect(listener.local_addr().unwrap()))
            .unwrap();
        (listener.accept().unwrap().0, client)
    }

    #[test]
    fn own_connections_are_recognized() {
        for to in ["127.0.0.1:0", "[::1]:0", "[::]:0"] {
            // A machine without IPv6 has only the first.
            let Ok(probe) = TcpListener::bind(to) else { continue };
            drop(probe);
            let (accepted, client) = connect(to);
            let (server, peer) = (accepted.local_addr().unwrap(), accepted.peer_addr().unwrap());
            assert!(is_same_user(server, peer), "{to}");
            // The two ends are not interchangeable, and a closed client is unknown.
            drop(client);
            assert!(!is_same_user(server, peer), "{to}");
        }
    }

    #[test]
    fn only_loopback_peers_are_recognized() {
        assert!(!is_same_user(address("192.0.2.1:80"), address("192.0.2.7:4000")));
        assert!(!is_same_user(address("127.0.0.1:1"), address("127.0.0.1:2")));
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn owner_is_read_from_open_sockets_only() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0\n\
            1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 0 10 -1\n\
            2: 0100007F:C351 0100007F:1F90 06 00000000:00000000 03:00001770 00000000     0        0 0 3 0\n\
            3: 0000000000000000FFFF00000100007F:C352 0000000000000000FFFF00000100007F:1F90 01 00000000:00000000 \
            00:00000000 00000000  1002        0 4 1 0 20 4 0 10 -1\n";
        let server = address("127.0.0.1:8080");
        let owner = |client: &str| socket_owner(table, address(client), server);
        assert_eq!(owner("127.0.0.1:50000"), Some(1001));
        assert_eq!(owner("127.0.0.1:50001"), None);
        assert_eq!(owner("[::ffff:127.0.0.1]:50002"), Some(1002));
        assert_eq!(owner("127.0.0.1:8080"), None);
        assert_eq!(socket_owner("garbage\nx y z\n", server, server), None);
    }
}
