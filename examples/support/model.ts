/* Models that continue a conversation. */

export interface Message {
  role: 'system' | 'user' | 'assistant';
  content: string;
}
export type Model = (messages: Message[]) => Promise<string>;

/** Where the model is: a server of OpenAI's chat completions (OpenAI, vLLM, Ollama, llama.cpp …). */
export interface ModelEnv {
  /** `https://api.openai.com/v1` */
  MODEL_URL: string;
  MODEL_KEY?: string;
  MODEL_NAME?: string;
}

const SECONDS = 120;

/** The adapter for a real model. */
export function chatModel(env: ModelEnv): Model {
  return async (messages) => {
    const response = await fetch(`${env.MODEL_URL}/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${env.MODEL_KEY ?? ''}` },
      body: JSON.stringify({ model: env.MODEL_NAME || 'default', messages }),
      signal: AbortSignal.timeout(SECONDS * 1000),
    });
    if (!response.ok)
      throw new Error(`the model answered ${response.status}: ${(await response.text()).slice(0, 500)}`);
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    return choices[0]!.message.content;
  };
}

/** The code of an answer: its first fenced block, or all of it. */
export const codeOf = (answer: string): string => /```\w*\n([\s\S]*?)```/.exec(answer)?.[1] ?? answer;
