/* What a program gets that imports `@cloudflare/sandbox`. */
export * from '../index.js';

/** Programs export this class for Cloudflare's platform. Nothing here makes an object of it. */
export class ContainerProxy {}
