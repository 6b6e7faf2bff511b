-- Note in the registry that somebody is in charge of an instance whose lease is over; others pass it over meanwhile.
-- KEYS: registry
-- ARGV: id ttl_ms
-- include: now_ms read_line
local line = redis.call('HGET', registry, id)
local lease, _, boot, about = read_line(line)
local now = now_ms()
if not line or lease and tonumber(lease) > now then
  return 0
end
redis.call('HSET', registry, id, table.concat({lease or 0, now + ttl_ms, boot or '-', about or ''}, ' '))
return 1
