/*
 * Generate, run, repair: a model writes a program, the sandbox runs it against tests, and what went wrong goes back to the
 * model until the tests pass or patience ends.
 *
 * The model here follows a script, so that the example runs anywhere; put yours behind the same interface.
 *
 *   bun examples/repair-loop.ts
 */
import { getSandbox, type Sandbox } from 'atoll-sandbox';

interface Message {
  role: 'user' | 'assistant';
  content: string;
}
/** Anything that continues a conversation: an API, a local model, a script. */
interface Model {
  complete(messages: Message[]): Promise<string>;
}

const TASK =
  'Write a Python module `roman.py` with a function `roman(n)` that writes 1 to 3999 in Roman numerals. Answer with the code alone.';
const TESTS = `import unittest
from roman import roman

class Roman(unittest.TestCase):
    def test_numbers(self):
        for n, text in {1: "I", 4: "IV", 9: "IX", 40: "XL", 1994: "MCMXCIV", 3999: "MMMCMXCIX"}.items():
            self.assertEqual(roman(n), text)
`;

const attempts = [
  // A slip of the pen.
  'def roman(n)\n    return "I" * n\n',
  // It runs, but it is wrong.
  'def roman(n):\n    out = ""\n    for v, s in [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]:\n        out += s * (n // v)\n        n %= v\n    return out\n',
  'def roman(n):\n    out = ""\n    for v, s in zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1),\n                    "M CM D CD C XC L XL X IX V IV I".split()):\n        out += s * (n // v)\n        n %= v\n    return out\n',
];

/** Makes the mistakes that models make, and mends each when it is shown the matching failure. */
class ScriptedModel implements Model {
  async complete(messages: Message[]): Promise<string> {
    const told = messages.at(-1)!.content;
    if (told.includes('SyntaxError')) return attempts[1]!;
    if (told.includes('AssertionError')) return attempts[2]!;
    return attempts[0]!;
  }
}

/** Runs the tests against a program; answers with what they said when they failed. */
async function failureOf(sandbox: Sandbox, program: string): Promise<string | undefined> {
  await sandbox.writeFile('/workspace/roman.py', program);
  const result = await sandbox.exec('python3 -m unittest -q test_roman.py', { timeout: 30_000 });
  return result.success ? undefined : result.stderr.slice(-2000);
}

async function generate(sandbox: Sandbox, model: Model, patience = 5): Promise<string> {
  const messages: Message[] = [{ role: 'user', content: TASK }];
  await sandbox.writeFile('/workspace/test_roman.py', TESTS);
  for (let round = 1; round <= patience; round++) {
    const program = await model.complete(messages);
    const failure = await failureOf(sandbox, program);
    if (!failure) {
      console.log(`round ${round}: the tests pass`);
      return program;
    }
    console.log(
      `round ${round}: ${failure
        .trim()
        .split('\n')
        .findLast((line) => /Error/.test(line))}`,
    );
    messages.push(
      { role: 'assistant', content: program },
      { role: 'user', content: `The tests fail:\n${failure}\nRepair it.` },
    );
  }
  throw new Error(`not done after ${patience} rounds`);
}

const sandbox = getSandbox(undefined, `repair-${process.pid}`);
try {
  await generate(sandbox, new ScriptedModel());
  const year = await sandbox.runCode('from roman import roman\nroman(2026)');
  console.log(`2026 is ${year.results[0]?.text}`);
} finally {
  await sandbox.destroy();
}
