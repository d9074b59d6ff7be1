// Characters that reverse what is written after them: in names and values of others they are shown as escapes.
export function shown(json: string): string {
  return json.replace(/[\u202a-\u202e\u2066-\u2069]/g, (character) => `\\\\u${character.charCodeAt(0).toString(16)}`);
}

// What requests and copies have in place of these escapes, in an address, in JSON or as they are.
export function stored(text: string): string {
  return text.replace(/(?:%5C|\\{1,2})u(202[a-e]|206[6-9])/g, (_, code: string) => String.fromCharCode(parseInt(code, 16)));
}
