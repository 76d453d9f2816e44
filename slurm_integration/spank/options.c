#include "options.h"

#include <stdio.h>
#include <string.h>

static const char RECORD_DIR[] = "record_dir=";

static bool is_folder_name(const char *text)
{
	return text[0] == '/' && strlen(text) < FC_MAX_PATH - 32 && !strstr(text, "/../");
}

bool fc_read_options(struct fc_options *options, int count, char **arguments, char *trouble,
		     size_t size)
{
	bool good = true;

	snprintf(options->record_dir, sizeof(options->record_dir), "%s", FC_DEFAULT_RECORD_DIR);
	for (int i = 0; i < count && arguments; i++) {
		const char *argument = arguments[i] ? arguments[i] : "";

		if (strncmp(argument, RECORD_DIR, strlen(RECORD_DIR)) == 0) {
			const char *value = argument + strlen(RECORD_DIR);

			if (strcmp(value, "off") == 0) {
				options->record_dir[0] = '\0';
				continue;
			}
			if (is_folder_name(value)) {
				snprintf(options->record_dir, sizeof(options->record_dir), "%s",
					 value);
				continue;
			}
		}
		snprintf(trouble, size,
			 "plugstack.conf: expected record_dir=/absolute/folder or record_dir=off, "
			 "found '%.64s'; it is ignored",
			 argument);
		good = false;
	}
	return good;
}

bool fc_is_preflight(const char *text)
{
	static const char *const values[] = {"off", "quick", "full"};

	for (size_t i = 0; text && i < sizeof(values) / sizeof(values[0]); i++)
		if (strcmp(text, values[i]) == 0)
			return true;
	return false;
}
