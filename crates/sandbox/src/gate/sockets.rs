//! Sockets: the program reaches its own, and those that the policy grants.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, chmod, fchmod, fcntl_getfl, fcntl_setfl, fstat, openat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, listen as listen_at, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::thread::UnshareFlags;

use super::Isolation;
use super::judge::identity;
use super::resolve::{At, Last, describe, own_path, path_of};
use super::serve::{Answer, Caller, Sharing, int};
use crate::guard::Access;
use crate::policy::{Network, SandboxPolicy};
use crate::processes::read;
use crate::sys::{self, AddressUse, Then};

/// Size of the longest address.
pub(super) const MAX_ADDRESS: usize = 128;
/// Position of the name in the address of a Unix socket, which the family precedes.
const NAME: usize = 2;

type Order = ([i32; 3], Sender<Result<OwnedFd, Errno>>);

/// Reachable sockets, and a thread that creates sockets in the program's own network.
#[derive(Debug)]
pub(super) struct Sockets {
    network: Network,
    granted: Vec<PathBuf>,
    isolation: Isolation,
    /// Abstract names that the program bound, and the number of the socket of each.
    abstract_names: Mutex<HashMap<Vec<u8>, u64>>,
    /// The network namespace of the program's own sockets, once it exists.
    namespace: OnceLock<u64>,
    orders: Mutex<Sender<Order>>,
    inbox: Mutex<Option<Receiver<Order>>>,
}

impl Sockets {
    pub(super) fn new(policy: &SandboxPolicy, isolation: Isolation) -> Self {
        let (orders, inbox) = channel();
        Self {
            network: policy.network.clone(),
            granted: policy.sockets.clone(),
            isolation,
            abstract_names: Mutex::default(),
            namespace: OnceLock::new(),
            orders: Mutex::new(orders),
            inbox: Mutex::new(Some(inbox)),
        }
    }

    /// Creates ordered sockets in a network namespace, which is created on first use. Runs in a thread that retains its
    /// capabilities until then.
    pub(super) fn make_isolated(&self) {
        let inbox = self.inbox.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(inbox) = inbox.filter(|_| self.isolation == Isolation::Namespace) else { return };
        let mut namespace = None;
        for ([domain, kind, protocol], reply) in inbox {
            let entered = *namespace.get_or_insert_with(|| {
                let entered = sys::unshare(UnshareFlags::NEWNET).and_then(|()| sys::enable_loopback());
                entered.and(sys::drop_capabilities())
            });
            let socket = entered.and_then(|()| sys::socket(domain, kind, protocol)).and_then(|socket| {
                let own = sys::network_of(socket.as_fd())?;
                self.namespace.get_or_init(|| own);
                Ok(socket)
            });
            let _ = reply.send(socket);
        }
    }

    fn order(&self, arguments: [i32; 3]) -> Result<OwnedFd, Errno> {
        let (reply, result) = channel();
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner).clone();
        orders.send((arguments, reply)).map_err(|_| Errno::ACCESS)?;
        result.recv().map_err(|_| Errno::ACCESS)?
    }

    /// Returns `true` if a socket is on the network of the host although the program has its own: it was connected to a
    /// granted port, and must not be used for anything else.
    fn is_outside(&self, socket: BorrowedFd<'_>) -> Result<bool, Errno> {
        if self.isolation != Isolation::Namespace || is_unix(socket)? {
            return Ok(false);
        }
        let network = sys::network_of(socket)?;
        Ok(self.namespace.get() != Some(&network))
    }

    fn is_granted(&self, address: &[u8]) -> bool {
        let Network::Own { loopback } = &self.network else { return true };
        let port = address.get(2..4).map(|port| u16::from_be_bytes([port[0], port[1]]));
        is_loopback(address) && port.is_some_and(|port| loopback.contains(&port))
    }
}

/// Creates an internet socket.
pub(super) fn create(caller: &Caller, domain: i32, kind: i32, protocol: i32) -> Result<Answer, Errno> {
    let sockets = &caller.gate.sockets;
    if !is_plain(kind, protocol) {
        return Err(Errno::PROTONOSUPPORT);
    }
    let fd = match (sockets.isolation, kind & 0xf) {
        (Isolation::Namespace, _) => sockets.order([domain, kind, protocol])?,
        // It can only connect, which the gate does.
        (Isolation::Shared, libc::SOCK_STREAM) if has_grants(&sockets.network) => {
            sys::socket(domain, kind, protocol)?
        }
        (Isolation::Shared, _) => {
            return Err(caller.gate.judge.deny("socket", b"network", "network not granted"));
        }
    };
    let close_on_exec = kind.cast_unsigned() & libc::SOCK_CLOEXEC.cast_unsigned();
    Ok(Answer::Give(fd, Sharing { close_on_exec, then: Then::Answer }))
}

/// Returns `true` for TCP and UDP. Other protocols have ways to connect that are no `connect`.
fn is_plain(kind: i32, protocol: i32) -> bool {
    match kind & 0xf {
        libc::SOCK_STREAM => [0, libc::IPPROTO_TCP].contains(&protocol),
        libc::SOCK_DGRAM => [0, libc::IPPROTO_UDP].contains(&protocol),
        _ => false,
    }
}

fn has_grants(network: &Network) -> bool {
    matches!(network, Network::Own { loopback } if !loopback.is_empty())
}

/// Connects a socket of the caller.
pub(super) fn connect(caller: &Caller, number: u64, address: &[u8]) -> Result<Answer, Errno> {
    let socket = caller_socket(caller, number)?;
    let sockets = &caller.gate.sockets;
    refuse_outside(caller, "connect", socket.as_fd())?;
    match family(address)? {
        libc::AF_UNSPEC => connect_to(caller, socket, address.to_vec(), Connection::Plain),
        libc::AF_UNIX if is_unix(socket.as_fd())? => connect_unix(caller, socket, address),
        libc::AF_INET | libc::AF_INET6 => {
            let is_full = sockets.network == Network::Full;
            let is_stream = sockopt::socket_type(&socket)? == SocketType::STREAM;
            if !is_full && is_stream && sockets.is_granted(address) {
                let outside = twin(socket.as_fd())?;
                let replacing = Connection::Instead(number as u32, fcntl_getfl(&socket)?);
                return connect_to(caller, outside, address.to_vec(), replacing);
            }
            if !is_full && sockets.isolation == Isolation::Shared {
                return Err(caller.gate.judge.deny("connect", b"network", "port not granted"));
            }
            connect_to(caller, socket, address.to_vec(), Connection::Plain)
        }
        _ => Err(Errno::AFNOSUPPORT),
    }
}

/// The rest of a connection, after the socket and the address.
enum Connection {
    /// Nothing.
    Plain,
    /// The object that the address names by its descriptor.
    To(#[expect(dead_code, reason = "held open")] OwnedFd),
    /// The number of the caller's descriptor, which the connected socket replaces, and its flags.
    Instead(u32, OFlags),
}

/// Connects in a thread of its own.
fn connect_to(
    caller: &Caller,
    socket: OwnedFd,
    address: Vec<u8>,
    connection: Connection,
) -> Result<Answer, Errno> {
    let mut socket = Some(socket);
    caller.later(move |_| {
        let connecting = socket.as_ref().ok_or(Errno::BADF)?;
        sys::use_address(connecting.as_fd(), AddressUse::Connect, &address)?;
        match connection {
            Connection::Instead(number, flags) => {
                fcntl_setfl(connecting, flags)?;
                Ok(Answer::Replace(socket.take().ok_or(Errno::BADF)?, number))
            }
            Connection::Plain | Connection::To(_) => Ok(Answer::Value(0)),
        }
    })
}

fn connect_unix(caller: &Caller, socket: OwnedFd, address: &[u8]) -> Result<Answer, Errno> {
    let gate = &caller.gate;
    let name = &address[NAME..];
    if name.first() == Some(&0) {
        let mut names = gate.sockets.abstract_names.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = names.get(name).is_some_and(|number| has_abstract_name(caller, *number));
        if !is_own {
            names.remove(name);
            return Err(gate.judge.deny("connect", &name[1..], "socket of another program"));
        }
        drop(names);
        return connect_to(caller, socket, address.to_vec(), Connection::Plain);
    }
    let at = At { directory: libc::AT_FDCWD, path: text_of(name).to_vec() };
    let object = gate.resolver.object(caller.thread, &at, Last::Followed)?;
    let file = &object.file;
    if FileType::from_raw_mode(file.stx_mode.into()) != FileType::Socket {
        return Err(Errno::CONNREFUSED);
    }
    let path = path_of(object.fd.as_fd())?;
    let is_granted = gate.sockets.granted.contains(&path) || gate.judge.is_created(identity(file));
    if !is_granted {
        return Err(gate.judge.deny("connect", path.as_os_str().as_bytes(), "socket of another program"));
    }
    let own = unix_address(own_path(object.fd.as_fd()).as_bytes())?;
    connect_to(caller, socket, own, Connection::To(object.fd))
}

/// Binds a socket of the caller, and remembers it.
pub(super) fn bind(caller: &Caller, number: u64, address: &[u8]) -> Result<Answer, Errno> {
    let gate = &caller.gate;
    let socket = caller_socket(caller, number)?;
    refuse_outside(caller, "bind", socket.as_fd())?;
    if !is_unix(socket.as_fd())? {
        if gate.sockets.isolation == Isolation::Shared && gate.sockets.network != Network::Full {
            return Err(gate.judge.deny("bind", b"network", "network not granted"));
        }
        sys::use_address(socket.as_fd(), AddressUse::Bind, address)?;
        return Ok(Answer::Value(0));
    }
    if family(address)? != libc::AF_UNIX {
        return Err(Errno::INVAL);
    }
    let name = &address[NAME..];
    if name.is_empty() || name[0] == 0 {
        return bind_abstract(caller, &socket, address);
    }
    let at = At { directory: libc::AT_FDCWD, path: text_of(name).to_vec() };
    let mode = caller.masked(0o777)?;
    let _names = gate.names.lock().map_err(|_| Errno::ACCESS)?;
    let (parent, leaf) = gate.resolver.parent(caller.thread, &at)?;
    let path = path_of(parent.fd.as_fd())?.join(OsStr::from_bytes(&leaf));
    gate.judge.name("bind", &path, Access::Create)?;
    let own = [own_path(parent.fd.as_fd()).as_bytes(), b"/", &leaf].concat();
    // The socket's own mode becomes that of its file. No other socket has this one, so a program in another sandbox
    // cannot put one there that would be taken for this.
    fchmod(&socket, mode.union(Mode::SUID))?;
    sys::use_address(socket.as_fd(), AddressUse::Bind, &unix_address(&own)?)?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&parent.fd, &*leaf, flags, Mode::empty())?;
    let bound = describe(file.as_fd())?.stx_mode.into();
    if FileType::from_raw_mode(bound) == FileType::Socket && Mode::from_raw_mode(bound).contains(Mode::SUID) {
        chmod(own_path(file.as_fd()), mode)?;
        gate.judge.add_created(file.as_fd())?;
    }
    fchmod(&socket, mode)?;
    Ok(Answer::Value(0))
}

fn bind_abstract(caller: &Caller, socket: &OwnedFd, address: &[u8]) -> Result<Answer, Errno> {
    sys::use_address(socket.as_fd(), AddressUse::Bind, address)?;
    let bound = rustix::net::getsockname(socket)?;
    let bound = rustix::net::SocketAddrUnix::try_from(bound)?;
    if let Some(name) = bound.abstract_name() {
        let name = [&[0], name].concat();
        caller
            .gate
            .sockets
            .abstract_names
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(name, fstat(socket)?.st_ino);
    }
    Ok(Answer::Value(0))
}

/// Returns `true` if a socket still exists, so that its name is its own.
fn has_abstract_name(caller: &Caller, number: u64) -> bool {
    let Ok(sockets) = read(caller.gate.resolver.proc.as_fd(), "self/net/unix") else { return false };
    let number = number.to_string();
    sockets.split(|byte| *byte == b'\n').any(|line| {
        let mut fields = line.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
        fields.nth(6) == Some(number.as_bytes()) && fields.next().is_some_and(|name| name.starts_with(b"@"))
    })
}

/// Listens on a socket of the caller, which must not be on the host's network.
pub(super) fn listen(caller: &Caller, number: u64, backlog: i32) -> Result<Answer, Errno> {
    let socket = caller_socket(caller, number)?;
    let sockets = &caller.gate.sockets;
    refuse_outside(caller, "listen", socket.as_fd())?;
    if sockets.isolation == Isolation::Shared && sockets.network != Network::Full && !is_unix(socket.as_fd())?
    {
        return Err(caller.gate.judge.deny("listen", b"network", "network not granted"));
    }
    listen_at(&socket, backlog)?;
    Ok(Answer::Value(0))
}

fn refuse_outside(caller: &Caller, operation: &str, socket: BorrowedFd<'_>) -> Result<(), Errno> {
    if caller.gate.sockets.is_outside(socket)? {
        return Err(caller.gate.judge.deny(operation, b"network", "connected to a granted port"));
    }
    Ok(())
}

/// Copies a descriptor of the caller.
fn caller_socket(caller: &Caller, number: u64) -> Result<OwnedFd, Errno> {
    let process = caller.gate.resolver.status(caller.thread)?.process;
    let process = pidfd_open(Pid::from_raw(process).ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
    let socket = pidfd_getfd(&process, int(number), PidfdGetfdFlags::empty())?;
    caller.check()?;
    Ok(socket)
}

fn is_unix(socket: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(sockopt::socket_domain(socket)? == AddressFamily::UNIX)
}

/// Creates a TCP socket of the same address family as another one, on the network of the host.
fn twin(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let domain = i32::from(sockopt::socket_domain(socket)?.as_raw());
    sys::socket(domain, libc::SOCK_STREAM, libc::IPPROTO_TCP)
}

fn family(address: &[u8]) -> Result<i32, Errno> {
    let family = address.first_chunk().ok_or(Errno::INVAL)?;
    Ok(u16::from_ne_bytes(*family).into())
}

fn text_of(name: &[u8]) -> &[u8] {
    name.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn unix_address(path: &[u8]) -> Result<Vec<u8>, Errno> {
    const MAX_NAME: usize = 107;
    if path.len() > MAX_NAME {
        return Err(Errno::NAMETOOLONG);
    }
    let family = u16::try_from(libc::AF_UNIX).map_err(|_| Errno::INVAL)?.to_ne_bytes();
    Ok([&family, path, &[0]].concat())
}

fn is_loopback(address: &[u8]) -> bool {
    match family(address) {
        Ok(libc::AF_INET) => address.get(4) == Some(&127),
        Ok(libc::AF_INET6) => address
            .get(8..24)
            .and_then(|bytes| <[u8; 16]>::try_from(bytes).ok())
            .is_some_and(|bytes| std::net::Ipv6Addr::from(bytes).to_canonical().is_loopback()),
        _ => false,
    }
}
