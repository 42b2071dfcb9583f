// node scripted-model.mjs SCRIPT: a model server for tests. It speaks OpenAI's chat completions and answers with the first entry of the script,
// [{"when": "regular expression", "answer": ["lines", …]}, …], that fits the last message. Prints its URL; ends when its parent has ended.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';

const script = JSON.parse(await readFile(process.argv[2], 'utf8'));
const server = createServer(async (request, response) => {
  let body = '';
  for await (const piece of request) body += piece;
  const { messages } = JSON.parse(body);
  const said = messages.at(-1).content;
  const found = script.find(({ when }) => new RegExp(when).test(said));
  const status = found ? 200 : 422;
  response.writeHead(status, { 'content-type': 'application/json' });
  const content = found ? found.answer.join('\n') : `the script has no answer to: ${said}`;
  response.end(JSON.stringify(found ? { choices: [{ message: { role: 'assistant', content } }] } : { error: content }));
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
const parent = process.ppid;
setInterval(() => process.ppid === parent || process.exit(), 200);
