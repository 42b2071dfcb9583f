import type * as s from '../types/secrets.js';
import type { Box } from './box.js';

const pathOf = (name: string): string => `/v1/secrets/${encodeURIComponent(name)}`;

/** Secrets belong to a daemon: of the box only the way there is used. */
export class SecretsOf implements s.Secrets {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  put(name: string, spec: s.SecretSpec): Promise<s.Secret> {
    return this.#box.json('PUT', pathOf(name), spec, { repeatable: true });
  }

  async list(): Promise<s.Secret[]> {
    return (await this.#box.json<{ secrets: s.Secret[] }>('GET', '/v1/secrets')).secrets;
  }

  async get(name: string): Promise<s.Secret | null> {
    try {
      return await this.#box.json<s.Secret>('GET', pathOf(name));
    } catch (error) {
      if ((error as { code?: string }).code !== 'NOT_FOUND') throw error;
      return null;
    }
  }

  async delete(name: string): Promise<void> {
    await this.#box.json('DELETE', pathOf(name));
  }
}
