/** A TCP proxy that cuts connections. */

import { type AddressInfo, connect, createServer, type Socket } from "node:net";

export interface Proxy {
  url: string;
  /** The number of connections that were made. */
  connections(): number;
  close(): void;
}

/** Starts a proxy before a service, which cuts each connection after this number of bytes of its responses. */
export async function startProxy(target: URL, limit: number): Promise<Proxy> {
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((client) => {
    connections += 1;
    let passed = 0;
    const upstream = connect(Number(target.port), target.hostname);
    for (const [from, to] of [[client, upstream], [upstream, client]] as const) {
      sockets.add(from);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        sockets.delete(from);
        to.destroy();
      });
    }
    client.pipe(upstream);
    upstream.on("data", (chunk: Buffer) => {
      if (passed + chunk.length < limit) client.write(chunk);
      else if (passed < limit) client.end(chunk.subarray(0, limit - passed), () => client.destroy());
      passed += chunk.length;
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const close = () => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connections: () => connections, close };
}
