-- Take charge of a dead instance for a while; asking again extends it. 0 while it lives or somebody else is in charge.
-- KEYS: presence adopter
-- ARGV: by ttl_ms
if redis.call('EXISTS', presence) == 1 then
  return 0
end
local known = redis.call('GET', adopter)
if known and known ~= by then
  return 0
end
redis.call('SET', adopter, by, 'PX', ttl_ms)
return 1
