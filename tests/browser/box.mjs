// The API of one box, as far as the scenarios need it.

export class Box {
  constructor({ ATOLL_URL, ATOLL_TOKEN, ATOLL_BOX }) {
    this.daemon = ATOLL_URL;
    this.base = `${ATOLL_URL}/v1/sandboxes/${ATOLL_BOX}`;
    this.headers = { Authorization: `Bearer ${ATOLL_TOKEN}`, 'Content-Type': 'application/json' };
  }

  async call(method, path, body) {
    const answer = await fetch(this.base + path, { method, headers: this.headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : undefined;
  }

  expose(port) {
    return this.call('POST', `/ports/${port}`, {}).then(({ url }) => url);
  }

  start(command, cwd) {
    return this.call('POST', '/api/process/start', { command: `cd ${cwd} && exec ${command}` });
  }

  write(path, content) {
    return this.call('POST', '/api/write', { path, content });
  }

  requests(port) {
    return this.call('GET', `/ports/${port}/requests`).then(({ requests }) => requests);
  }
}
