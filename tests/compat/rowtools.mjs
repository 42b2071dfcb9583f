// What the rows of the class (workers/) share. They run inside of workerd.
import assert from 'node:assert/strict';

export { assert };

/** Errors cross a Durable Object's RPC as plain ones; upstream puts the class's name in front of the message. */
export async function rejects(promise, pattern) {
  try {
    await promise;
  } catch (error) {
    assert.match(`${error.name}: ${error.message}`, pattern);
    return error;
  }
  assert.fail(`expected ${pattern}, but it succeeded`);
}

/** Waits for a state, however long the machine takes. */
export async function until(what, condition, seconds = 100) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `waited ${seconds} s for ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

/** The messages of a WebSocket, one after the other. */
export function messages(socket) {
  const come = [];
  const asked = [];
  const give = (item) => (asked.length ? asked.shift()(item) : come.push(item));
  socket.addEventListener('message', ({ data }) => give({ data }));
  socket.addEventListener('close', ({ code, reason }) => give({ closed: { code, reason } }));
  socket.accept();
  const next = () => (come.length ? Promise.resolve(come.shift()) : new Promise((done) => asked.push(done)));
  return {
    /** `what` is waited for, for the message of a failure. */
    async next(what = 'a message') {
      const late = AbortSignal.timeout(45_000);
      const item = await Promise.race([
        next(),
        new Promise((_, reject) => late.addEventListener('abort', () => reject(new Error(`waited in vain for ${what}`)))),
      ]);
      return item.data instanceof Blob ? { data: await item.data.arrayBuffer() } : item;
    },
  };
}
