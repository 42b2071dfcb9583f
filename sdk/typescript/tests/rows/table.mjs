const AT_ONCE = 4;

/** Runs every row once, a few at a time, and prints a line of JSON for each. */
export async function table(wanted, run) {
  const left = [...wanted];
  const worker = async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) {
      const began = Date.now();
      const result = await run(name).catch((error) => ({ ok: false, error: `${error.stack ?? error}` }));
      console.log(JSON.stringify({ name, ms: Date.now() - began, ...result }));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}
