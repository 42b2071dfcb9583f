/** Gives a result a text, for `String(result)` and templates. JSON and copies of the result do not change. */
export function withText<T extends object>(result: T, text: () => string): T {
  return Object.defineProperty(result, 'toString', {
    value: text,
    enumerable: false,
    configurable: true,
    writable: true,
  });
}

/** The same, with the bytes of the text: an object of these members is allowed where a body is asked for. */
export function withBody<T extends object>(
  result: T,
  text: () => string,
): T & { readonly buffer: ArrayBuffer; readonly byteLength: number; readonly byteOffset: number } {
  const bytes = () => new TextEncoder().encode(text());
  return Object.defineProperties(withText(result, text), {
    buffer: { get: () => bytes().buffer },
    byteLength: { get: () => bytes().byteLength },
    byteOffset: { value: 0 },
  }) as T & { buffer: ArrayBuffer; byteLength: number; byteOffset: number };
}
