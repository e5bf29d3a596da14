-- Version 7: the last use of a token, in the unit of this version.
UPDATE tokens SET last_used_micros = 1700000004000000 WHERE id = '0123456789ab';
