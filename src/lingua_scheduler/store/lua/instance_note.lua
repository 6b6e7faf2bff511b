-- Write an instance's line in the registry, with a lease from now on.
-- KEYS: registry
-- ARGV: id lease_ms boot about
-- include: now_ms
if redis.call('TYPE', registry).ok ~= 'hash' then
  redis.call('DEL', registry)
end
redis.call('HSET', registry, id, table.concat({now_ms() + lease_ms, 0, boot, about}, ' '))
redis.call('EXPIRE', registry, 86400)
return 1
