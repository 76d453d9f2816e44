"""Commands of the epilog, loaded by name when somebody asks for one."""
