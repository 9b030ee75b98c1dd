//! A TCP proxy for the database that can drop all traffic, like a network that loses every packet, or
//! close connections, like a proxy whose server is down.

use std::path::PathBuf;

use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

/// A proxy in front of a Postgres server.
pub(crate) struct Proxy {
    port: u16,
    silence: watch::Sender<Silence>,
    closing: watch::Sender<Closing>,
    _stop: DropGuard,
}

/// The connections that a proxy closes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closing {
    /// None.
    None,
    /// All of them, and new ones as soon as they are accepted.
    AtOnce,
    /// Each in the middle of the next reply of the server.
    InReplies,
}

/// The traffic that a proxy holds back.
#[derive(Clone, Copy, Default)]
struct Silence {
    /// All traffic, until this is false again.
    is_all: bool,
    /// All traffic, permanently, of connections that were opened before this number of losses.
    losses: u64,
}

impl Proxy {
    /// Starts a proxy for this server.
    pub(crate) async fn before(server: &PgConnectOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (sender, silence) = watch::channel(Silence::default());
        let (closing, closings) = watch::channel(Closing::None);
        let stop = CancellationToken::new();
        let serve = accept(listener, Server::of(server), (silence, closings), stop.clone());
        TaskTracker::new().spawn(stop.clone().run_until_cancelled_owned(serve));
        Self { port, silence: sender, closing, _stop: stop.drop_guard() }
    }

    /// The connection options of a client of the proxy.
    pub(crate) fn options(&self, server: &PgConnectOptions) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port)
            .username(server.get_username())
            .database(server.get_database().unwrap())
            .ssl_mode(PgSslMode::Disable)
    }

    /// Stops or resumes forwarding. No connection is closed.
    pub(crate) fn drop_traffic(&self, is_silent: bool) {
        self.silence.send_modify(|silence| silence.is_all = is_silent);
    }

    /// Closes connections from now on.
    pub(crate) fn close_connections(&self, closing: Closing) {
        self.closing.send_replace(closing);
    }

    /// Stops forwarding permanently on the open connections without closing them, like a firewall
    /// that has lost its state. New connections work.
    pub(crate) fn drop_open_connections(&self) {
        self.silence.send_modify(|silence| silence.losses += 1);
    }
}

/// The address of the server.
#[derive(Clone)]
enum Server {
    Socket(PathBuf),
    Tcp(String, u16),
}

impl Server {
    fn of(options: &PgConnectOptions) -> Self {
        let port = options.get_port();
        let folder = options.get_socket().cloned().or_else(|| {
            options.get_host().starts_with('/').then(|| PathBuf::from(options.get_host()))
        });
        match folder {
            Some(folder) => Self::Socket(folder.join(format!(".s.PGSQL.{port}"))),
            None => Self::Tcp(options.get_host().to_owned(), port),
        }
    }
}

/// The state of a proxy that its connections follow.
type State = (watch::Receiver<Silence>, watch::Receiver<Closing>);

async fn accept(listener: TcpListener, server: Server, state: State, stop: CancellationToken) {
    let links = TaskTracker::new();
    while let Ok((client, _)) = listener.accept().await {
        let (server, state) = (server.clone(), state.clone());
        links.spawn(stop.clone().run_until_cancelled_owned(async move {
            match server {
                Server::Socket(path) => {
                    join(client, UnixStream::connect(path).await, state).await;
                }
                Server::Tcp(host, port) => {
                    join(client, TcpStream::connect((host, port)).await, state).await;
                }
            }
        }));
    }
}

async fn join<S: AsyncRead + AsyncWrite>(
    client: TcpStream,
    server: std::io::Result<S>,
    (silence, closing): State,
) {
    let Ok(server) = server else { return };
    let (client_reads, client_writes) = client.into_split();
    let (server_reads, server_writes) = tokio::io::split(server);
    let mut ends = closing.clone();
    tokio::select! {
        biased;
        _ = ends.wait_for(|closing| *closing == Closing::AtOnce) => {}
        () = forward(client_reads, server_writes, silence.clone(), None) => {}
        () = forward(server_reads, client_writes, silence, Some(closing)) => {}
    }
}

async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut silence: watch::Receiver<Silence>,
    closing: Option<watch::Receiver<Closing>>,
) {
    let mut buffer = vec![0; 16 * 1024];
    let losses_before = silence.borrow().losses;
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        if closing.as_ref().is_some_and(|closing| *closing.borrow() == Closing::InReplies) {
            let _ = to.write_all(&buffer[..read / 2]).await;
            return;
        }
        // Held data arrives later, as a network retransmits lost packets.
        let is_forwarded = |silence: &Silence| !silence.is_all && silence.losses == losses_before;
        if silence.wait_for(is_forwarded).await.is_err()
            || to.write_all(&buffer[..read]).await.is_err()
        {
            return;
        }
    }
}
