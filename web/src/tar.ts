/** A tar (ustar) of files, for the context of a build. */
const BLOCK = 512, NAME_MAX = 100, PREFIX_MAX = 155;

function header(path: string, size: number): Uint8Array {
  const block = new Uint8Array(BLOCK), text = new TextEncoder();
  const put = (at: number, value: string) => block.set(text.encode(value), at);
  const octal = (n: number, width: number) => n.toString(8).padStart(width - 1, '0');
  const cut = text.encode(path).length > NAME_MAX ? path.lastIndexOf('/') : -1, name = path.slice(cut + 1), prefix = cut < 0 ? '' : path.slice(0, cut);
  if (text.encode(name).length > NAME_MAX || text.encode(prefix).length > PREFIX_MAX) throw new Error(`the name ${path} is too long`);
  put(0, name);
  put(100, octal(0o644, 8));
  put(108, octal(0, 8));
  put(116, octal(0, 8));
  put(124, octal(size, 12));
  put(136, octal(0, 12));
  put(148, '        ');
  put(156, '0ustar\0' + '00');
  put(345, prefix);
  put(148, `${octal(block.reduce((sum, byte) => sum + byte, 0), 7)}\0`);
  return block;
}

export function tar(files: { path: string; file: Blob }[]): Blob {
  const parts: BlobPart[] = [];
  for (const { path, file } of files) parts.push(header(path, file.size) as BlobPart, file, new Uint8Array((BLOCK - (file.size % BLOCK)) % BLOCK));
  return new Blob([...parts, new Uint8Array(2 * BLOCK)]);
}
