-- Make an inbox and its group, which reads it from its beginning; 0 when both are there.
-- KEYS: inbox
-- ARGV: group
-- include: open_inbox
return open_inbox(inbox, group)
