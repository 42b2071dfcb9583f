// What a person sees when previews have a domain of their own, which is not `localhost`: ATOLL_PREVIEW_DOMAIN=previews.test.
import assert from 'node:assert/strict';

const APP = `
import http.server
class App(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        if self.path == "/set":
            for cookie in ("plain=1", "tossed=1; Domain=previews.test", "dotted=1; path=/; domain = .previews.test",
                           "twice=1; Domain=x; DOMAIN=previews.test", 'quoted="1; Domain=previews.test; "', "bare=1; Domain"):
                self.send_header("Set-Cookie", cookie)
        self.end_headers()
        self.wfile.write(b"<h1>app</h1>")
for port in (8011, 8012):
    import threading
    threading.Thread(target=http.server.HTTPServer(("127.0.0.1", port), App).serve_forever).start()
`;

const cookies = (page) => page.evaluate(() => document.cookie.split('; ').map((c) => c.split('=')[0]).sort());

export async function cookies_stay_with_their_preview({ box, page }) {
  // There is no proxy in front: the daemon's own port is asked.
  const exposed = async (port) => Object.assign(new URL(await box.expose(port)), { port: new URL(box.daemon).port }).href;
  const first = await exposed(8011);
  const second = await exposed(8012);
  assert.match(new URL(first).hostname, /\.previews\.test$/);
  await box.write('/workspace/app.py', APP);
  await box.start('python3 app.py', '/workspace');
  // The page that waits reloads by itself once the app listens.
  for (const url of [first, second]) {
    await page.goto(url);
    await page.waitForSelector('h1:text-is("app")');
  }
  await page.goto(`${first}set`);
  assert.deepEqual(await cookies(page), ['bare', 'dotted', 'plain', 'quoted', 'tossed', 'twice']);
  await page.goto(second);
  assert.deepEqual(await cookies(page), [''], 'no cookie of one preview reaches another');
}
