-- End an instance's presence, and its inbox if that is empty, unless another boot lives under the id.
-- Returns 'taken', 'empty', or 'letters' when there are some for somebody to inherit.
-- KEYS: presence inbox
-- ARGV: boot
local known = redis.call('HGET', presence, 'boot')
if known and known ~= boot then
  return 'taken'
end
redis.call('DEL', presence)
if redis.call('XLEN', inbox) > 0 then
  return 'letters'
end
redis.call('UNLINK', inbox)
return 'empty'
