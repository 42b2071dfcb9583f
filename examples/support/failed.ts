/** Errors of Atoll say what to do; the caller of the API may know it. */
export function failed(error: Error & { httpStatus?: number; code?: string; suggestion?: string }): Response {
  const { message, code, suggestion } = error;
  return Response.json({ error: message, code, suggestion }, { status: error.httpStatus ?? 500 });
}
