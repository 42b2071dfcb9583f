/** What a sandbox may reach. Members that are not given stay as they are, null takes one away. */
export interface NetworkPolicy {
  mode?: 'open' | 'list' | 'off' | null;
  allow?: string[] | null;
  deny?: string[] | null;
  /** In mode `list`: connections that no rule decides wait until somebody approves them. */
  ask?: boolean | null;
  /** Seconds, or a text like "5m". */
  askTimeout?: number | string | null;
  rateBps?: number | null;
  maxConnections?: number | null;
  /** `false`: what the daemon allows to all sandboxes does not count for this one; what it denies does. */
  defaults?: boolean | null;
}

/** The policy that holds, with the daemon's defaults; `own` is what the sandbox asked for. */
export interface NetworkState {
  mode: 'open' | 'list' | 'off';
  /** Why the mode is `off` whatever was asked for: the host, or this box, has no network. */
  reason?: string;
  allow: string[];
  deny: string[];
  ask: boolean;
  askTimeout: number | string;
  rateBps: number;
  maxConnections: number;
  own: NetworkPolicy;
  connections: number;
  denied: number;
  bytesSent: number;
  bytesReceived: number;
}

/** One connection that has ended, or one name that was refused. */
export interface NetworkRecord {
  time: string;
  name: string | null;
  address: string | null;
  port: number;
  protocol: 'tcp' | 'tls' | 'http' | 'https' | 'udp' | 'dns';
  decision: 'allow' | 'deny';
  rule: string;
  sent: number;
  received: number;
  ms: number;
  end: string;
  /** How many refused connections or datagrams it stands for; absent for one. */
  times?: number;
}

/** A connection that waits for somebody's decision. */
export interface Approval {
  id: string;
  sandbox: string;
  host: string;
  port: number;
  protocol: 'tcp' | 'tls' | 'http';
  address: string | null;
  createdAt: string;
  expiresAt: string;
}

/** A new question, or the end of one. */
export type ApprovalEvent =
  | ({ type: 'approval' } & Approval)
  | {
      type: 'ended';
      id: string;
      sandbox: string;
      host: string;
      port: number;
      end: 'allow' | 'deny' | 'timeout' | 'gone';
    };

export interface ApprovalAnswer {
  decision: 'allow' | 'deny';
  /** `once` unless given. */
  remember?: 'once' | 'sandbox' | 'always';
}

export interface Network {
  get(): Promise<NetworkState>;
  /** Counts when it resolves: connections that begin later meet the new policy. */
  set(policy: NetworkPolicy): Promise<NetworkState>;
  /** The last records, oldest first. */
  log(): Promise<NetworkRecord[]>;
  /** The same as events that go on: read it with `parseSSEStream<NetworkRecord>`. */
  followLog(options?: { signal?: AbortSignal }): Promise<ReadableStream<Uint8Array>>;
  /** Connections of this sandbox that wait for somebody. */
  approvals(): Promise<Approval[]>;
  /** Questions of all sandboxes as events: read it with `parseSSEStream<ApprovalEvent>`. */
  followApprovals(options?: { signal?: AbortSignal }): Promise<ReadableStream<Uint8Array>>;
  approve(approval: string | { id: string }, answer?: ApprovalAnswer): Promise<void>;
}
