-- Add to each letter how often it was handed out; letters that somebody deleted are acknowledged and counted.
local function handed(inbox, group, entries)
  local letters, vanished = {}, 0
  for _, entry in ipairs(entries) do
    if entry[2] then
      local pending = redis.call('XPENDING', inbox, group, entry[1], entry[1], 1)[1]
      letters[#letters + 1] = {entry[1], pending and pending[4] or 1, entry[2]}
    else
      vanished = vanished + redis.call('XACK', inbox, group, entry[1])
    end
  end
  return letters, vanished
end
