-- Tell the version of the keys, the present in ms and, if the version is another than `since`, ids and lines of all.
-- KEYS: auth_keys auth_version
-- ARGV: since
-- include: now_ms
local version = redis.call('GET', auth_version) or '0'
if version == since then
  return {version, now_ms()}
end
return {version, now_ms(), redis.call('HGETALL', auth_keys)}
