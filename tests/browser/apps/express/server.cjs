// A small app with what previews must carry: pages, JSON, cookies, redirects, event streams, WebSockets.
const express = require('express');
const { WebSocketServer } = require('ws');

const port = Number(process.argv[2]);
const app = express();
let clicks = 0;
app.use(express.json());
app.use(express.static(__dirname));
app.post('/click', (req, res) => res.json({ clicks: ++clicks, by: req.body.by }));
app.get('/login', (req, res) => res.cookie('session', 'abc', { httpOnly: true }).redirect('/whoami'));
app.get('/whoami', (req, res) => res.send(`<p id="cookie">${req.headers.cookie || ''}</p>`));
app.get('/events', (req, res) => {
  res.set({ 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache' });
  let n = 0;
  const timer = setInterval(() => res.write(`data: ${++n}\n\n`), 20);
  req.on('close', () => clearInterval(timer));
});
const server = app.listen(port, '0.0.0.0');
new WebSocketServer({ server, path: '/echo' }).on('connection', (socket) => {
  socket.on('message', (data, binary) => socket.send(data, { binary }));
});
