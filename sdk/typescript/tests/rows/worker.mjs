// A Worker that uses atoll-sandbox directly, without a Durable Object: /NAME runs a row.
import { run } from './rows.mjs';

export default {
  async fetch(request) {
    return Response.json(await run(decodeURIComponent(new URL(request.url).pathname.slice(1))));
  },
};
