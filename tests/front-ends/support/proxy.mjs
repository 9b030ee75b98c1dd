// A TCP proxy that a test can cut, for a moment or for a time.

import { connect, createServer } from "node:net";

export async function startProxy(target) {
  const sockets = new Set();
  let isDown = false;
  const server = createServer((client) => {
    if (isDown) return client.destroy();
    const upstream = connect(Number(target.port), target.hostname);
    for (const [from, to] of [[client, upstream], [upstream, client]]) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  /** Cuts all connections, and refuses new ones for a time in milliseconds. */
  const outage = async (duration) => {
    isDown = true;
    cut();
    await new Promise((resolve) => setTimeout(resolve, duration));
    isDown = false;
  };
  const close = () => {
    server.close();
    cut();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, cut, outage, close };
}
