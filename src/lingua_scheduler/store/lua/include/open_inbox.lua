-- Make sure that an inbox is a stream with a group that reads it from its beginning; 1 when something was missing.
local function open_inbox(inbox, group)
  if redis.call('TYPE', inbox).ok ~= 'stream' then
    redis.call('DEL', inbox)
  else
    for _, known in ipairs(redis.call('XINFO', 'GROUPS', inbox)) do
      if known[2] == group then
        redis.call('EXPIRE', inbox, 86400)
        return 0
      end
    end
  end
  redis.call('XGROUP', 'CREATE', inbox, group, '0', 'MKSTREAM')
  redis.call('EXPIRE', inbox, 86400)
  return 1
end
