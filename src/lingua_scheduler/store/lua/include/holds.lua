-- Tell whether an owner may write about a session: not when somebody newer has it. An older record becomes its own; one that is gone stays gone.
local function holds(session, owner, epoch)
  local known = redis.call('HMGET', session, 'owner', 'epoch')
  local current, mine = tonumber(known[2]), tonumber(epoch)
  if not current or (current == mine and known[1] == owner) then
    return true
  end
  if current >= mine then
    return false
  end
  redis.call('HSET', session, 'owner', owner, 'epoch', epoch)
  return true
end
