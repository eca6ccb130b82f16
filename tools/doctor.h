/*
 * doctor.h - the checks of `cuward doctor`; doctor_walls.c has those about walls that others built.
 */
#ifndef DOCTOR_H
#define DOCTOR_H

enum verdict { OK, WARN, FAIL };

struct diagnosis {
	enum verdict verdict;
	char text[600];
	char advice[300]; /* empty if nothing is to be done */
};

void doctor_say(struct diagnosis *d, enum verdict verdict, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void doctor_advise(struct diagnosis *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* doctor_walls.c */
void doctor_check_nvml(struct diagnosis *d);
void doctor_check_mig(struct diagnosis *d);
void doctor_check_mps(struct diagnosis *d);
void doctor_check_dmem(struct diagnosis *d);

#endif
