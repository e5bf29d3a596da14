-- Version 12: jobs have the kind of their program's operations, and their trace.
UPDATE jobs SET operation = 'ADD' WHERE tenant = 'acme';
