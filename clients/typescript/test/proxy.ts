/** A TCP proxy that a test can cut. */

import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Proxy {
  url: string;
  /** Closes all connections. New ones are accepted. */
  cut(): void;
  close(): void;
}

/** Starts a proxy before a service. */
export async function startProxy(target: URL): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port), target.hostname);
    for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
      from.pipe(to);
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  const close = () => {
    server.close();
    cut();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, cut, close };
}
