import { ContextNotFoundError } from '../errors/other-errors.js';
import { SandboxSecurityError } from '../errors/plain-errors.js';
import { idOf } from '../names.js';
import { parseSSEStream } from '../sse/streams.js';
import { withText } from '../text.js';
import type * as t from '../types/interpreter.js';
import type { Box } from './box.js';
import { present } from './commands.js';
import { Execution, errorOf, resultOf } from './execution.js';

const languages = new Set(['python', 'python3', 'javascript', 'js', 'node', 'typescript', 'ts']);

interface CodeEvent {
  type: 'stdout' | 'stderr' | 'result' | 'error' | 'execution_complete';
  text?: string;
  timestamp?: number | string;
  ename?: string;
  evalue?: string;
  traceback?: string[];
  lineNumber?: number;
  execution_count?: number;
}

function contextOf(fields: { id: string; language: string; cwd?: string }, timestamp: string): t.CodeContext {
  const time = new Date(timestamp);
  return { id: fields.id, language: fields.language, cwd: fields.cwd ?? '/workspace', createdAt: time, lastUsed: time };
}

/** A context by its id, or by an object that has one. */
function contextNamed(context: t.ContextRef): Execution['context'] {
  const id = idOf('code context', context);
  return typeof context === 'string' ? { id } : { ...(context as t.CodeContext), id };
}

const timeOf = (timestamp?: number | string) =>
  typeof timestamp === 'number' ? timestamp : Date.parse(timestamp ?? '') || Date.now();

/** The code interpreter of one sandbox: contexts that keep their state, and one default context per language. */
export class CodeInterpreter {
  readonly #box: Box;
  readonly #sandboxEnv: () => Record<string, string>;
  readonly #defaults = new Map<string, Promise<t.CodeContext>>();

  constructor(box: Box, sandboxEnv: () => Record<string, string> = () => ({})) {
    this.#box = box;
    this.#sandboxEnv = sandboxEnv;
  }

  async createCodeContext(options: t.CreateContextOptions = {}): Promise<t.CodeContext> {
    const { language = 'python', cwd = '/workspace', timeout } = options;
    if (!languages.has(language))
      throw new SandboxSecurityError(
        `Unsupported language '${language}'. There are python, javascript and typescript.`,
        'INVALID_LANGUAGE',
      );
    const body = {
      language,
      cwd,
      env_vars: present({ ...this.#sandboxEnv(), ...options.envVars }),
      timeout_ms: timeout,
    };
    const answer = await this.#box.json<any>('POST', '/api/contexts', body);
    return contextOf({ ...answer, id: answer.contextId }, answer.timestamp);
  }

  async listCodeContexts(): Promise<t.CodeContext[]> {
    const answer = await this.#box.json<any>('GET', '/api/contexts');
    return answer.contexts.map((context: any) => contextOf(context, context.createdAt ?? answer.timestamp));
  }

  async deleteCodeContext(context: t.ContextRef): Promise<void> {
    await this.#box.json('DELETE', `/api/contexts/${encodeURIComponent(idOf('code context', context))}`);
  }

  /** Runs code to its end and calls the callbacks meanwhile. */
  async runCode(code: string, options: t.RunCodeInput = {}): Promise<Execution> {
    const [stream, context] = await this.#open(code, options);
    const execution = new Execution(code, context);
    for await (const event of parseSSEStream<CodeEvent>(stream, options.signal))
      await this.#take(event, execution, options);
    return execution;
  }

  async runCodeStream(code: string, options: t.RunCodeInput = {}): Promise<ReadableStream<Uint8Array>> {
    return (await this.#open(code, options))[0];
  }

  async #open(code: string, options: t.RunCodeInput): Promise<[ReadableStream<Uint8Array>, Execution['context']]> {
    const { timeout, signal, envVars } = options;
    const named = options.context === undefined || options.context === null ? undefined : contextNamed(options.context);
    for (let tries = 0; ; tries++) {
      const context = named ?? (await this.#defaultContext(options.language ?? 'python'));
      const body = {
        context_id: context.id,
        code,
        language: options.language,
        timeout_ms: timeout,
        env_vars: present(envVars),
      };
      try {
        return [await this.#box.stream('POST', '/api/execute/code', body, { signal }), context];
      } catch (error) {
        // The sandbox, or the context in it, is another one by now: nothing has run.
        const gone = error instanceof ContextNotFoundError && !named && tries === 0;
        if (!gone) throw error;
        this.#defaults.clear();
      }
    }
  }

  #defaultContext(language: NonNullable<t.RunCodeOptions['language']>): Promise<t.CodeContext> {
    const known = this.#defaults.get(language);
    if (known) return known;
    const made = this.createCodeContext({ language });
    this.#defaults.set(language, made);
    made.catch(() => this.#defaults.delete(language));
    return made;
  }

  async #take(event: CodeEvent, execution: Execution, options: t.RunCodeInput): Promise<void> {
    if (event.type === 'stdout' || event.type === 'stderr') {
      const text = event.text ?? '';
      const output = withText({ text, timestamp: timeOf(event.timestamp) }, () => text);
      execution.print(event.type, text);
      if (text) await options.onOutput?.(text);
      await (event.type === 'stdout' ? options.onStdout : options.onStderr)?.(output);
    } else if (event.type === 'result') {
      const result = resultOf(event as object);
      execution.results.push(result);
      await options.onResult?.(result);
    } else if (event.type === 'error') {
      const { ename = 'Error', evalue = 'Unknown error', traceback = [], lineNumber } = event;
      execution.error = errorOf(ename, evalue, traceback, lineNumber);
      await options.onError?.(execution.error);
    } else if (event.type === 'execution_complete') {
      execution.executionCount = event.execution_count;
      execution.ended = true;
    }
  }
}
