// Prometheus text on a port of its own: /metrics and nothing else. Off unless an address is given.
import { createServer, type Server } from 'node:http';

export function serveMetrics(listen: { host: string; port: number }, text: () => Promise<string>): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404, { 'content-type': 'text/plain' }).end('only GET /metrics is here\n');
      return;
    }
    text().then(
      (page) => response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(page),
      (error: unknown) => response.writeHead(500, { 'content-type': 'text/plain' }).end(`${String(error)}\n`),
    );
  });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(listen.port, listen.host, () => resolve(server));
  });
}
