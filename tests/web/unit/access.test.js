import { Access, parted } from "/web/access.js";
import { equal } from "/unit/expect.js";

function memory() {
  const kept = new Map();
  return { kept, getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
}

export function a_token_is_parted_from_the_rest_of_the_hash() {
  equal(parted(""), { token: "", rest: "" });
  equal(parted("#123456"), { token: "", rest: "123456" });
  equal(parted("#token=lt1.a.b"), { token: "lt1.a.b", rest: "" });
  equal(parted("#123456&token=lt1.a.b"), { token: "lt1.a.b", rest: "123456" });
  equal(parted("#token=old&123456&token=new"), { token: "new", rest: "123456" });
}

export function only_what_can_be_a_key_or_token_is_kept() {
  const storage = memory();
  const access = new Access(() => {}, storage);
  const taken = ["", "two words", "a/b", "é", "x".repeat(2049)].map((text) => access.use(text));
  equal([taken, access.known, storage.kept.size], [[false, false, false, false, false], false, 0]);
  equal([access.use(" lk_tenant_1 \n"), access.known, [...storage.kept.values()]], [true, true, ["lk_tenant_1"]]);
  equal(new Access(() => {}, storage).known, true);
  access.use("https://talk.example/room#123456&token=lt1.a.b");
  equal([...storage.kept.values()], ["lt1.a.b"]);
}

export function a_browser_that_keeps_nothing_can_be_used() {
  const full = { getItem: () => null, setItem: () => { throw new Error("full"); } };
  equal([new Access(() => {}, full).use("lt1.a.b"), new Access(() => {}, null).use("lt1.a.b")], [true, true]);
}
