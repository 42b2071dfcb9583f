import type * as n from '../types/network.js';
import type { Box } from './box.js';

/** What a sandbox may reach, and what waits for an approval. */
export class NetworkOf implements n.Network {
  readonly #box: Box;

  constructor(box: Box) {
    this.#box = box;
  }

  get(): Promise<n.NetworkState> {
    return this.#box.json('GET', '/network');
  }

  async set(policy: n.NetworkPolicy): Promise<n.NetworkState> {
    try {
      return await this.#box.json<n.NetworkState>('PATCH', '/network', policy, { repeatable: true });
    } catch (error) {
      if ((error as { code?: string }).code !== 'SANDBOX_NOT_FOUND') throw error;
    }
    // The first call makes the sandbox.
    const network = Object.fromEntries(Object.entries(policy).filter(([, value]) => value !== null));
    await this.#box.json('PUT', '', { network }, { repeatable: true });
    return this.get();
  }

  async log(): Promise<n.NetworkRecord[]> {
    return (await this.#box.json<{ log: n.NetworkRecord[] }>('GET', '/network/log')).log;
  }

  followLog(options: { signal?: AbortSignal } = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#box.stream('GET', '/network/log?follow=1', undefined, options);
  }

  async approvals(): Promise<n.Approval[]> {
    const all = await this.#box.json<{ approvals: n.Approval[] }>('GET', '/v1/approvals');
    return all.approvals.filter((one) => one.sandbox === this.#box.id);
  }

  followApprovals(options: { signal?: AbortSignal } = {}): Promise<ReadableStream<Uint8Array>> {
    return this.#box.stream('GET', '/v1/approvals?follow=1', undefined, options);
  }

  async approve(approval: string | { id: string }, answer: n.ApprovalAnswer = { decision: 'allow' }): Promise<void> {
    const id = typeof approval === 'string' ? approval : approval.id;
    await this.#box.json('POST', `/v1/approvals/${encodeURIComponent(id)}`, answer);
  }
}
