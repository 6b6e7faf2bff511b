-- Strike an instance from the registry; 0 while another boot than this one has a lease.
-- KEYS: registry
-- ARGV: id boot
-- include: now_ms read_line
local lease, _, holder = read_line(redis.call('HGET', registry, id))
if lease and holder ~= boot and tonumber(lease) > now_ms() then
  return 0
end
return redis.call('HDEL', registry, id)
